#include "skim/safetensors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "skim/error.hpp"

namespace skim {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> counting_bytes(std::size_t count, int first = 1) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

std::string file_bytes(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string file_bytes(const std::string& header, std::size_t data_bytes) {
  return file_bytes(header, std::string(data_bytes, 'd'), header.size());
}

SafetensorsFile parse(const std::string& bytes) {
  return SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "x.safetensors");
}

/// Message of the Error with this code that `action` throws.
template <class Action>
std::string message_of(ErrorCode code, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// The file with this header and so much data must be refused with a message that holds all the words.
void expect_rejected(const std::string& header, std::size_t data_bytes, std::initializer_list<std::string_view> words) {
  const std::string message = message_of(ErrorCode::bad_file, [&] { parse(file_bytes(header, data_bytes)); });
  EXPECT_TRUE(message.starts_with("x.safetensors: ")) << message;
  for (const std::string_view word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
  }
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

/// A folder of its own for each test.
class SafetensorsFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "skim-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& file : fs::directory_iterator(folder_)) result.push_back(file.path().filename());
    return result;
  }
  std::string open_error(const fs::path& path, ErrorCode code) const {
    return message_of(code, [&] { SafetensorsFile::open(path); });
  }

  fs::path folder_;
};

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_same(const Tensor& got, const TensorToWrite& wanted) {
  EXPECT_EQ(got.dtype, wanted.dtype);
  EXPECT_EQ(got.shape, wanted.shape);
  EXPECT_TRUE(std::equal(got.bytes.begin(), got.bytes.end(), wanted.bytes.begin(), wanted.bytes.end()));
}

constexpr int kDTypeCount = static_cast<int>(DType::u64) + 1;

TEST_F(SafetensorsFiles, RoundTripKeepsEveryDType) {
  const std::vector<std::byte> bytes = counting_bytes(64 * 8);
  std::vector<TensorToWrite> tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::size_t size = 2 * 4 * static_cast<std::size_t>(dtype_bits(dtype)) / 8;
    tensors.push_back(
        {"t" + std::to_string(i), dtype, {2, 4}, std::span(bytes).subspan(static_cast<std::size_t>(i), size)});
  }
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"quo\"te", "line\nbreak \xc3\xa9"}};
  write_safetensors(folder_ / "all.safetensors", tensors, metadata);
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "all.safetensors");
  EXPECT_EQ(file.path(), folder_ / "all.safetensors");
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorToWrite& tensor : tensors) expect_same(file.tensor(tensor.name), tensor);
}

TEST_F(SafetensorsFiles, RoundTripKeepsScalarsAndEmptyTensors) {
  const std::vector<std::byte> bytes = counting_bytes(8);
  const std::vector<TensorToWrite> tensors = {{"scalar", DType::f64, {}, bytes},
                                              {"empty", DType::f32, {3, 0, 5}, {}},
                                              {"also empty", DType::u8, {0}, {}},
                                              {"", DType::f8_e8m0, {1}, std::span(bytes).first(1)}};
  write_safetensors(folder_ / "few.safetensors", tensors, {});
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "few.safetensors");
  for (const TensorToWrite& tensor : tensors) expect_same(file.tensor(tensor.name), tensor);
  EXPECT_EQ(file.tensor("scalar").elements(), 1);
  EXPECT_EQ(file.tensor("empty").elements(), 0);
}

TEST_F(SafetensorsFiles, RoundTripKeepsAFileWithoutTensors) {
  for (const std::map<std::string, std::string>& metadata : {std::map<std::string, std::string>{}, {{"a", "b"}}}) {
    write_safetensors(folder_ / "none.safetensors", {}, metadata);
    const SafetensorsFile file = SafetensorsFile::open(folder_ / "none.safetensors");
    EXPECT_TRUE(file.tensors().empty());
    EXPECT_EQ(file.metadata(), metadata);
  }
}

TEST_F(SafetensorsFiles, WriterAlignsDataAndOrdersByElementSizeThenName) {
  const std::vector<std::byte> bytes = counting_bytes(8);
  const auto part = [&](std::size_t count) { return std::span(bytes).first(count); };
  const std::vector<TensorToWrite> tensors = {{"z", DType::u8, {3}, part(3)},  {"b", DType::bf16, {1}, part(2)},
                                              {"y", DType::f4, {2}, part(1)},  {"a", DType::u8, {1}, part(1)},
                                              {"x", DType::i64, {1}, part(8)}, {"c", DType::f16, {1}, part(2)}};
  write_safetensors(folder_ / "f", tensors, {});
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "f");
  std::string order;
  for (const TensorInfo& info : file.tensors()) {
    order += info.name;
    const auto address = reinterpret_cast<std::uintptr_t>(file.tensor(info.name).bytes.data());
    EXPECT_EQ(address % static_cast<std::uintptr_t>(std::max(1, dtype_bits(info.dtype) / 8)), 0u) << info.name;
  }
  EXPECT_EQ(order, "xbcazy");
}

TEST_F(SafetensorsFiles, TensorOutlivesItsFile) {
  const std::vector<std::byte> bytes = counting_bytes(4);
  const std::vector<TensorToWrite> tensors = {{"a", DType::u8, {4}, bytes}};
  write_safetensors(folder_ / "f", tensors, {});
  const Tensor tensor = SafetensorsFile::open(folder_ / "f").tensor("a");
  fs::remove(folder_ / "f");
  expect_same(tensor, tensors[0]);
}

TEST_F(SafetensorsFiles, MissingTensorIsNamed) {
  write_safetensors(folder_ / "f", {}, {});
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "f");
  EXPECT_FALSE(file.contains("wq"));
  const std::string message = message_of(ErrorCode::tensor_mismatch, [&] { file.tensor("wq"); });
  EXPECT_NE(message.find("'wq'"), std::string::npos);
}

TEST_F(SafetensorsFiles, WhatIsNoFileIsACleanError) {
  EXPECT_NE(open_error(folder_ / "missing", ErrorCode::io).find("No such file"), std::string::npos);
  EXPECT_NE(open_error(folder_, ErrorCode::io).find("directory"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_NE(open_error(folder_ / "fifo", ErrorCode::io).find("pipe"), std::string::npos);
  std::ofstream(folder_ / "empty").flush();
  EXPECT_NE(open_error(folder_ / "empty", ErrorCode::bad_file).find("empty"), std::string::npos);
  EXPECT_NE(open_error("/dev/zero", ErrorCode::io).find("device"), std::string::npos);
}

TEST_F(SafetensorsFiles, EveryTruncationIsRejected) {
  const std::vector<std::byte> bytes = counting_bytes(12);
  write_safetensors(folder_ / "f", std::vector<TensorToWrite>{{"a", DType::f32, {3}, bytes}}, {{"key", "value"}});
  const std::string whole = contents_of(folder_ / "f");
  EXPECT_NO_THROW(parse(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    message_of(ErrorCode::bad_file, [&] { parse(whole.substr(0, length)); });
    std::ofstream(folder_ / "cut", std::ios::binary) << whole.substr(0, length);
    open_error(folder_ / "cut", ErrorCode::bad_file);
  }
}

TEST(Safetensors, RejectsHugeHeaderLengths) {
  for (const std::uint64_t length : {100'000'001ULL, 1ULL << 32, 1ULL << 63, ~0ULL, ~0ULL - 7}) {
    const std::string message = message_of(ErrorCode::bad_file, [&] { parse(file_bytes("{}", "", length)); });
    EXPECT_NE(message.find("header length " + std::to_string(length)), std::string::npos) << message;
  }
  const std::string message = message_of(ErrorCode::bad_file, [&] { parse(file_bytes("{}", "", 3)); });
  EXPECT_NE(message.find("truncated"), std::string::npos) << message;
}

TEST(Safetensors, RejectsHeadersThatAreNoJsonObject) {
  expect_rejected("", 0, {"'{'"});
  expect_rejected("[]", 0, {"'{'"});
  expect_rejected(" {}", 0, {"'{'"});
  expect_rejected("{", 0, {"not valid JSON"});
  expect_rejected("{}x", 0, {"not valid JSON", "byte 3"});
  expect_rejected("{\"a\xff\":1}", 0, {"UTF-8"});
  EXPECT_NO_THROW(parse(file_bytes("{}  \n", 0)));
}

TEST(Safetensors, RejectsOverlapNamingBothTensors) {
  const std::string header = "{" + entry("first", "U8", "8", "0,8") + "," + entry("second", "U8", "8", "4,12") + "}";
  expect_rejected(header, 12, {"'first'", "'second'", "overlap"});
  const std::string twins = "{" + entry("first", "U8", "8", "0,8") + "," + entry("second", "U8", "8", "0,8") + "}";
  expect_rejected(twins, 8, {"'first'", "'second'", "overlap"});
  const std::string inside = "{" + entry("first", "U8", "8", "0,8") + "," + entry("second", "U8", "0", "4,4") + "}";
  expect_rejected(inside, 8, {"'first'", "'second'", "overlap"});
}

TEST(Safetensors, RejectsGapsNamingTheirNeighbours) {
  const std::string between = "{" + entry("first", "U8", "4", "0,4") + "," + entry("second", "U8", "4", "8,12") + "}";
  expect_rejected(between, 12, {"'first'", "'second'", "bytes 4 to 8", "no tensor"});
  expect_rejected("{" + entry("only", "U8", "4", "4,8") + "}", 8, {"'only'", "bytes 0 to 4", "no tensor"});
  expect_rejected("{" + entry("only", "U8", "4", "0,4") + "}", 8, {"'only'", "bytes 4 to 8", "no tensor"});
  expect_rejected("{}", 8, {"bytes 0 to 8", "no tensor"});
}

TEST(Safetensors, RejectsOffsetsThatAreNoSizes) {
  for (const char* offsets : {"-4,0", "0.5,4", "0.0,4.0", "\"0\",4", "null,4", "0,9223372036854775808", "0,1e2"}) {
    SCOPED_TRACE(offsets);
    expect_rejected("{" + entry("a", "U8", "4", offsets) + "}", 4, {"'a'", "data_offsets[", "integer from 0"});
  }
  expect_rejected("{" + entry("a", "U8", "4", "0") + "}", 4, {"'a'", "data_offsets is an array of 1"});
  expect_rejected("{" + entry("a", "U8", "4", "0,4,4") + "}", 4, {"'a'", "data_offsets is an array of 3"});
  expect_rejected("{" + entry("a", "U8", "4", "4,0") + "}", 4, {"'a'", "begin at 4", "at 0"});
  expect_rejected("{" + entry("a", "U8", "4", "0,9223372036854775807") + "}", 4, {"'a'", "file holds 4 bytes"});
}

TEST(Safetensors, RejectsBytesThatDoNotFitTheShape) {
  expect_rejected("{" + entry("a", "F32", "2", "0,4") + "}", 4, {"'a'", "4 bytes", "expected 8", "[2]", "F32"});
  expect_rejected("{" + entry("a", "F32", "", "0,0") + "}", 0, {"'a'", "expected 4"});
  expect_rejected("{" + entry("a", "U8", "-4", "0,4") + "}", 4, {"'a'", "shape[0] is -4"});
  expect_rejected("{" + entry("a", "U8", "4.0", "0,4") + "}", 4, {"'a'", "shape[0] is 4.0"});
}

TEST(Safetensors, RejectsShapesWhoseProductOverflows) {
  for (const char* shape : {"4294967296,4294967296", "9223372036854775807", "4611686018427387904,4611686018427387904,0",
                            "0,4611686018427387904,4611686018427387904", "65536,65536,65536,65536"}) {
    SCOPED_TRACE(shape);
    expect_rejected("{" + entry("a", "U8", shape, "0,0") + "}", 0, {"'a'", "shape", "2^63"});
  }
}

TEST(Safetensors, RejectsOddNumbersOfHalfBytes) {
  expect_rejected("{" + entry("a", "F4", "3", "0,2") + "}", 2, {"'a'", "12 bits", "multiple of 8"});
  expect_rejected("{" + entry("a", "F6_E2M3", "2", "0,2") + "}", 2, {"'a'", "12 bits"});
  EXPECT_EQ(parse(file_bytes("{" + entry("a", "F4", "2,3", "0,3") + "}", 3)).tensor("a").elements(), 6);
}

TEST(Fault67, UnknownDTypesAreNamed) {
  expect_rejected("{" + entry("a", "F9", "4", "0,4") + "}", 4, {"'a'", "\"F9\"", "BF16"});
  expect_rejected("{" + entry("a", "u8", "4", "0,4") + "}", 4, {"\"u8\""});
}

TEST(Safetensors, RejectsRepeatedNames) {
  expect_rejected("{" + entry("a", "U8", "4", "0,4") + "," + entry("a", "U8", "4", "4,8") + "}", 8, {"'a'", "twice"});
  expect_rejected("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\"}}", 0, {"'dtype'", "twice"});
  expect_rejected("{\"__metadata__\":{},\"__metadata__\":{}}", 0, {"'__metadata__'", "twice"});
}

TEST(Safetensors, RejectsEntriesWithOtherFields) {
  expect_rejected("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, {"'a'", "data_offsets is missing"});
  expect_rejected("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"more\":1}}", 0, {"'a'", "'more'"});
  expect_rejected("{\"a\":{\"dtype\":8,\"shape\":[0],\"data_offsets\":[0,0]}}", 0, {"'a'", "dtype is 8"});
  expect_rejected("{\"a\":{\"dtype\":\"U8\",\"shape\":0,\"data_offsets\":[0,0]}}", 0, {"'a'", "shape is 0"});
  expect_rejected("{\"a\":[]}", 0, {"'a'", "expected an object"});
}

TEST(Safetensors, RejectsMetadataThatIsNotText) {
  expect_rejected("{\"__metadata__\":{\"a\":1}}", 0, {"__metadata__", "a is 1", "a string"});
  expect_rejected("{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, {"__metadata__", "a is an object"});
  expect_rejected("{\"__metadata__\":null}", 0, {"__metadata__", "null"});
}

TEST(Safetensors, AcceptsAnyOrderOfEntriesAndListsThemByOffset) {
  const std::string header = "{" + entry("a", "U8", "4", "4,8") + "," + entry("b", "U8", "4", "0,4") + "," +
                             entry("c", "U8", "0", "4,4") + "}";
  const std::string bytes = file_bytes(header, 8);
  const SafetensorsFile file = parse(bytes);
  std::string order;
  for (const TensorInfo& info : file.tensors()) order += info.name;
  EXPECT_EQ(order, "bca");
  EXPECT_EQ(file.tensor("a").bytes.data(), reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size() - 4);
}

class SafetensorsWriter : public SafetensorsFiles {
 protected:
  /// What the writer says when it refuses; it must leave nothing behind.
  std::string refusal(const std::vector<TensorToWrite>& tensors,
                      const std::map<std::string, std::string>& metadata = {}) {
    const std::string message =
        message_of(ErrorCode::invalid_argument, [&] { write_safetensors(folder_ / "f", tensors, metadata); });
    EXPECT_TRUE(names().empty());
    return message;
  }
  std::vector<std::byte> bytes_ = counting_bytes(8);
};

TEST_F(SafetensorsWriter, RefusesWhatTheReaderWouldReject) {
  const std::span<const std::byte> bytes = bytes_;
  const std::span<const std::byte> four = bytes.first(4);
  EXPECT_EQ(refusal({{"a", DType::f32, {2}, four}}), "tensor 'a': 4 bytes given, expected 8 for shape [2] of F32");
  EXPECT_NE(
      refusal({{"a", DType::u8, {4}, four}, {"b", DType::u8, {4}, four}, {"a", DType::f32, {1}, four}}).find("'a'"),
      std::string::npos);
  EXPECT_NE(refusal({{"a", DType::f4, {3}, bytes.first(1)}}).find("12 bits"), std::string::npos);
  EXPECT_NE(refusal({{"a", DType::u8, {-4}, four}}).find("negative"), std::string::npos);
  EXPECT_NE(refusal({{"__metadata__", DType::u8, {4}, four}}).find("reserve"), std::string::npos);
  EXPECT_NE(refusal({{"a\xff", DType::u8, {4}, four}}).find("UTF-8"), std::string::npos);
  EXPECT_NE(refusal({}, {{"key", "\xff"}}).find("UTF-8"), std::string::npos);
}

TEST_F(SafetensorsWriter, KeepsTheOldFileAndNoTemporaryWhenTheDiskRefuses) {
  write_safetensors(folder_ / "f", std::vector<TensorToWrite>{{"old", DType::u8, {8}, bytes_}}, {});
  const std::string old = contents_of(folder_ / "f");
  const std::vector<std::byte> large(1 << 20);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 64 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of(ErrorCode::io, [&] {
    write_safetensors(folder_ / "f", std::vector<TensorToWrite>{{"new", DType::u8, {1 << 20}, large}}, {});
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  EXPECT_EQ(contents_of(folder_ / "f"), old);
}

TEST_F(SafetensorsWriter, LeavesNoTemporaryWhenTheTargetCannotBeReplaced) {
  fs::create_directory(folder_ / "f");
  message_of(ErrorCode::io, [&] { write_safetensors(folder_ / "f", {}, {}); });
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  message_of(ErrorCode::io, [&] { write_safetensors(folder_ / "missing" / "f", {}, {}); });
}

TEST_F(SafetensorsWriter, RewritesAFileFromItsOwnMapping) {
  write_safetensors(folder_ / "f", std::vector<TensorToWrite>{{"a", DType::u8, {8}, bytes_}}, {});
  const Tensor old = SafetensorsFile::open(folder_ / "f").tensor("a");
  const std::vector<TensorToWrite> twice = {{"a", DType::u8, {8}, old.bytes}, {"b", DType::u8, {8}, old.bytes}};
  write_safetensors(folder_ / "f", twice, {});
  expect_same(SafetensorsFile::open(folder_ / "f").tensor("b"), {"b", DType::u8, {8}, bytes_});
}

TEST_F(SafetensorsWriter, ThreadsMayWriteTheSameFile) {
  const std::vector<TensorToWrite> tensors = {{"a", DType::u8, {8}, bytes_}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) write_safetensors(folder_ / "f", tensors, {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  expect_same(SafetensorsFile::open(folder_ / "f").tensor("a"), tensors[0]);
}

}  // namespace
}  // namespace skim
