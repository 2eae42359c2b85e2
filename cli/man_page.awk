# Writes the manual page of skim from its own help: awk -v program=build/release/skim -v version=0.1.0 -f man_page.awk
# Help has a description, "Usage: ...", groups ("Options:") of entries whose text begins at column 31, and paragraphs.

function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}

# An option or command: its name, and the text beside it unless the name is too long for that.
function print_entry(line,    name, beside) {
  beside = substr(line, 30, 1) == " "
  name = beside ? substr(line, 3, 27) : substr(line, 3)
  sub(/ +$/, "", name)
  print ".TP\n.B " roff(name)
  if (beside) print roff(substr(line, 31))
  return name
}

# One screen of help. Names of commands go into `commands`, in order.
function print_help(call,    line, group, name) {
  while ((call | getline line) > 0) {
    if (line ~ /^[A-Z][a-z]+:$/) {
      group = line
      print ".SS " roff(substr(line, 1, length(line) - 1))
    } else if (line ~ /^Usage: /) {
      print ".PP\n.B " roff(substr(line, 8))
    } else if (line ~ /^  [^ ]/) {
      name = print_entry(line)
      if (group == "Subcommands:") commands[++count] = name
    } else if (line == "") {
      if (group != "") print ".PP"
    } else {
      sub(/^ +/, "", line)
      print roff(line)
    }
  }
  if (close(call) != 0) exit 1
}

BEGIN {
  print ".TH SKIM 1 \"\" \"skim " version "\" \"User Commands\""
  print ".SH NAME\nskim \\- DeepSeek sparse attention on CPUs\n.SH DESCRIPTION"
  print_help("'" program "' --help")
  for (i = 1; i <= count; ++i) {
    print ".SH SKIM " toupper(commands[i])
    print_help("'" program "' " commands[i] " --help")
  }
}
