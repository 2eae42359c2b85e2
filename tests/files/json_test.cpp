#include "files/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace skim {
namespace {

JsonValue parse(std::string_view text) { return parse_json(text, "file.json", ErrorCode::bad_config); }

/// Message of the Error that `action` throws; fails the test if it throws none, or another code, or several lines.
template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("file.json")) << message;
    return message;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

std::string rejection(std::string_view text) {
  return message_of([&] { parse(text); });
}

void expect_words(const std::string& message, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
  }
}

TEST(Json, KeepsEveryKindOfValue) {
  const JsonValue value =
      parse(R"( {"a": [1, -2, 2.5, true, null, "x\u00e9", []], "b": {"c": 18446744073709551615}} )");
  const JsonValue list{JsonValue::Array{{std::int64_t{1}},
                                        {std::int64_t{-2}},
                                        {2.5},
                                        {true},
                                        {nullptr},
                                        {std::string("x\xc3\xa9")},
                                        {JsonValue::Array()}}};
  const JsonValue inner{JsonValue::Object{{"c", {std::uint64_t{18446744073709551615u}}}}};
  EXPECT_EQ(value, (JsonValue{JsonValue::Object{{"a", list}, {"b", inner}}}));
}

TEST(Json, NamesTheByteOfASyntaxError) {
  expect_words(rejection(R"({"a": 1, })"), {"at byte 10", "expected string literal"});
  expect_words(rejection(""), {"at byte 1", "end of input"});
  expect_words(rejection("{\"a\": 0x1}"), {"at byte 8"});
  expect_words(rejection("[1, NaN]"), {"at byte 5"});
}

TEST(Json, RejectsAnythingBehindTheDocument) {
  expect_words(rejection("{} {}"), {"at byte 4", "end of input"});
  expect_words(rejection("1 2"), {"at byte 3"});
  expect_words(rejection(std::string_view("{}\0{", 4)), {"NUL", "at byte 3"});
}

TEST(Json, RejectsRepeatedKeysNamingThem) {
  expect_words(rejection(R"({"outer": {"twice": 1, "b": 2, "twice": 1}})"), {"'twice'", "twice in one object"});
  expect_words(rejection(R"({"a": 1, "\u0061": 2})"), {"'a'"});
  EXPECT_NO_THROW(parse(R"({"a": {"a": 1}, "b": {"a": 1}})"));
}

TEST(Json, LimitsNesting) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse(nested(kMaxJsonDepth)));
  expect_words(rejection(nested(kMaxJsonDepth + 1)), {"deeper than 64"});
  expect_words(rejection(std::string(1 << 20, '[')), {"deeper than 64"});
}

TEST(Json, RejectsInvalidUtf8) {
  expect_words(rejection("{\"a\": \"\xff\"}"), {"UTF-8", "at byte"});
  expect_words(rejection("{\"\xc0\xaf\": 1}"), {"UTF-8"});
  expect_words(rejection(R"(["\ud800"])"), {"surrogate"});
}

TEST(Json, RejectsNumbersBeyondADouble) { expect_words(rejection("[1e999]"), {"range of a double"}); }

TEST(Json, KeepsMessagesShort) {
  EXPECT_LT(rejection("[" + std::string(100'000, '9') + "e999999]").size(), 200u);
  EXPECT_LT(rejection("{\"" + std::string(100'000, 'k') + "\": tru}").size(), 200u);
  const std::string key(100'000, 'k');
  EXPECT_LT(rejection("{\"" + key + "\": 1, \"" + key + "\": 2}").size(), 200u);
}

class JsonObjectTest : public testing::Test {
 protected:
  JsonValue document_ = parse(R"({"n": 3, "whole": 10000.0, "half": 0.5, "huge": 1e300, "big": 9223372036854775808,
      "least": -9223372036854775808, "text": "abc", "none": null, "yes": true, "list": [1, 2.0, -3], "bad": [1, "x"],
      "wide": [4294967296], "shape": [0, 9223372036854775807], "floats": [4.0], "inner": {"deep": {"x": "no"}}})");
  JsonObject object_{document_, "file.json", ErrorCode::bad_config};
};

TEST_F(JsonObjectTest, NullCountsAsAbsent) {
  EXPECT_TRUE(object_.has("n"));
  EXPECT_FALSE(object_.has("none"));
  EXPECT_FALSE(object_.has("nothing"));
}

TEST_F(JsonObjectTest, ReadsEveryKindOfField) {
  EXPECT_EQ(object_.integer("n"), 3);
  EXPECT_EQ(object_.integer("whole"), 10000);
  EXPECT_EQ(object_.integer("least"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(object_.number("half"), 0.5);
  EXPECT_EQ(object_.number("n"), 3.0);
  EXPECT_TRUE(object_.boolean("yes"));
  EXPECT_EQ(object_.text("text"), "abc");
  EXPECT_EQ(object_.integers("list"), (std::vector<int>{1, 2, -3}));
  EXPECT_EQ(object_.sizes("shape"), (std::vector<std::int64_t>{0, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(object_.object("inner").object("deep").text("x"), "no");
}

TEST_F(JsonObjectTest, NamesFileKeyFoundAndExpected) {
  const auto integer = [&](const char* key) { return message_of([&] { object_.integer(key, 1, 2); }); };
  EXPECT_EQ(integer("n"), "file.json: n is 3, expected an integer from 1 to 2");
  EXPECT_EQ(integer("text"), "file.json: text is \"abc\", expected an integer from 1 to 2");
  EXPECT_EQ(integer("nothing"), "file.json: nothing is missing, expected an integer from 1 to 2");
  EXPECT_EQ(integer("none"), "file.json: none is null, expected an integer from 1 to 2");
  EXPECT_EQ(integer("half"), "file.json: half is 0.5, expected an integer from 1 to 2");
  EXPECT_EQ(integer("list"), "file.json: list is an array of 3: [1, 2.0, -3], expected an integer from 1 to 2");
  EXPECT_EQ(message_of([&] { object_.text("yes"); }), "file.json: yes is true, expected a string");
  EXPECT_EQ(message_of([&] { object_.number("text"); }), "file.json: text is \"abc\", expected a number");
  EXPECT_EQ(message_of([&] { object_.object("n"); }), "file.json: n is 3, expected an object");
}

TEST_F(JsonObjectTest, RejectsIntegersThatDoNotFit) {
  expect_words(message_of([&] { object_.integer("huge"); }), {"huge is 1e+300"});
  expect_words(message_of([&] { object_.integer("big"); }), {"big is 9223372036854775808"});
  expect_words(message_of([&] { object_.integer("least", 0); }), {"least", "at least 0"});
  expect_words(message_of([&] { object_.integers("wide"); }), {"wide[0] is 4294967296"});
}

TEST_F(JsonObjectTest, NamesTheElementOfAList) {
  expect_words(message_of([&] { object_.integers("bad"); }), {"bad[1] is \"x\""});
  expect_words(message_of([&] { object_.sizes("list"); }), {"list[1] is 2.0"});
  expect_words(message_of([&] { object_.sizes("floats"); }), {"floats[0] is 4.0"});
}

TEST_F(JsonObjectTest, NamesTheWholePathOfANestedField) {
  const JsonObject deep = object_.object("inner").object("deep");
  EXPECT_EQ(message_of([&] { deep.number("x"); }), "file.json: inner.deep.x is \"no\", expected a number");
}

TEST(JsonObject, RejectsADocumentThatIsNoObject) {
  const JsonValue list = parse("[1, 2]");
  EXPECT_EQ(message_of([&] { JsonObject(list, "file.json", ErrorCode::bad_config); }),
            "file.json is an array of 2: [1, 2], expected an object");
}

}  // namespace
}  // namespace skim
