#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "skim/error.hpp"

namespace skim {
namespace {

constexpr std::size_t kMostShown = 60;  // bytes that shortened keeps

/// A character at the front of a text, or one byte that begins none.
struct Character {
  std::size_t bytes = 1;
  bool valid = false;
  std::uint32_t code = 0;
};

/// Decodes UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing beyond U+10FFFF.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {1, true, lead};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  std::uint32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return {length, code >= kLeast[length] && code <= 0x10FFFF && !surrogate, code};
}

/// Ranges of Unicode that change how a terminal shows what follows, or show nothing: general categories Cc, Cf, Zl and
/// Zp.
constexpr struct {
  std::uint32_t first, last;
} kUnprintable[] = {{0x00, 0x1F},       {0x7F, 0x9F},      {0xAD, 0xAD},     {0x600, 0x605},     {0x61C, 0x61C},
                    {0x6DD, 0x6DD},     {0x70F, 0x70F},    {0x180E, 0x180E}, {0x200B, 0x200F},   {0x2028, 0x202E},
                    {0x2060, 0x206F},   {0xFEFF, 0xFEFF},  {0xFFF9, 0xFFFB}, {0x110BD, 0x110BD}, {0x1BCA0, 0x1BCA3},
                    {0x1D173, 0x1D17A}, {0xE0000, 0xE007F}};

bool shows(const Character& character) {
  return character.valid && std::none_of(std::begin(kUnprintable), std::end(kUnprintable), [&](const auto& range) {
           return character.code >= range.first && character.code <= range.last;
         });
}

void append(std::string& line, const Character& character, std::string_view bytes) {
  if (shows(character)) {
    line += bytes;
  } else if (character.valid && character.code >= 0x80) {
    line += fmt::format("\\u{:04x}", character.code);
  } else {
    for (const char byte : bytes) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
}

/// The first characters of `text` that fit `most` bytes, printable.
std::string printable_part(std::string_view text, std::size_t most) {
  std::string line;
  for (std::size_t i = 0; i < text.size();) {
    if (i >= most) return line + "...";
    Character character = first_character(text.substr(i));
    if (!character.valid) character.bytes = 1;
    append(line, character, text.substr(i, character.bytes));
    i += character.bytes;
  }
  return line;
}

}  // namespace

std::string printable(std::string_view text) { return printable_part(text, std::string_view::npos); }

std::string shortened(std::string_view text) { return printable_part(text, kMostShown); }

Error::Error(ErrorCode code, std::string_view message) : std::runtime_error(printable(message)), code_(code) {}

}  // namespace skim
