# Completion of skim for bash. Commands, options and their values are read from its help, so they are always those of the
# program that is called.

_skim() {
  local line=${COMP_LINE:0:COMP_POINT} current previous command="" word help words
  current=${line##*[[:space:]]}  # whole, with colons, at which bash breaks words
  read -ra words <<< "${line%"$current"}"
  previous=${words[-1]}
  for word in "${words[@]:1}"; do
    if [[ $word != -* ]]; then command=$word; break; fi
  done
  help=$("$1" ${command:+"$command"} --help 2> /dev/null) || return

  local -a candidates=()
  if [[ $current == -* ]]; then
    # Lines of options: "  -h,--help    ...", "  --model TEXT    ..."
    candidates=($(grep -oE '^  (-[a-z],)?--[a-z-]+' <<< "$help" | grep -oE -- '--[a-z-]+'))
  elif [[ -z $command ]]; then
    candidates=($(sed -n '/^Subcommands:/,/^$/ s/^  \([a-z]*\) .*/\1/p' <<< "$help"))
  elif [[ $previous == --kernels || $previous == --compare ]]; then
    candidates=($("$1" info --machine 2> /dev/null | sed -n 's/^  \([a-z0-9]*\) .*/\1/p'))
  elif [[ $previous == --model || $command == info ]]; then
    candidates=($(grep -oE 'synthetic:[a-z0-9-]+' <<< "$help" | sort -u))
  else
    # "  --mode TEXT:{decode,prefill} ..."
    candidates=($(sed -n "s/^  $previous TEXT:{\([a-z,]*\)}.*/\1/p" <<< "$help" | tr , ' '))
  fi
  COMPREPLY=($(compgen -W "${candidates[*]}" -- "$current"))
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then  # bash replaces only what follows the last colon
    COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
  fi
}
complete -o bashdefault -o default -F _skim skim
