// Claims: what comes from a file reaches a terminal only as visible characters on one line.
#include "base/text.hpp"

#include <gtest/gtest.h>

#include "skim/error.hpp"

namespace skim {
namespace {

TEST(Text, VisibleCharactersStayAsTheyAre) {
  for (const char* text : {"", "layers.0.attn", "caf\xc3\xa9", "\xe6\xa8\xa1\xe5\x9e\x8b", "\xf0\x9f\x90\x8b ~!"}) {
    EXPECT_EQ(printable(text), text);
  }
}

// FAULTS-2 134 and its relatives: control characters of any kind.
TEST(Text, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(printable("a\nb\r\t\x1b[31m\x7f"), "a\\x0ab\\x0d\\x09\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\x85"),
            "\\u009b31m\\u0085");
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "gnp\xe2\x81\xa6\xe2\x80\x8b\xe2\x80\xa8"),
            "\\u202egnp\\u2066\\u200b\\u2028");
  EXPECT_EQ(printable("\xef\xbb\xbf\xd8\x9c\xf3\xa0\x80\x81"), "\\ufeff\\u061c\\ue0001");
}

TEST(Text, BytesThatAreNoUtf8AreSpelledOut) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // an overlong slash
  EXPECT_EQ(printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");           // an overlong line feed
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");                           // C1 as one byte
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // cut off
}

TEST(Text, MessagesArePrintable) {
  EXPECT_STREQ(Error(ErrorCode::io, "a\x1b]0;b\x07\nc").what(), "a\\x1b]0;b\\x07\\x0ac");
}

TEST(Text, ShortenedIsOneLineOfWholeCharacters) {
  EXPECT_EQ(shortened("a\nb\x7f"), "a\\x0ab\\x7f");
  const std::string cut = shortened(std::string(59, 'a') + "\xc3\xa9" + "bc");
  EXPECT_EQ(cut, std::string(59, 'a') + "\xc3\xa9...");
  EXPECT_EQ(shortened(std::string(60, 'a')), std::string(60, 'a'));
}

}  // namespace
}  // namespace skim
