// Claims: of a file only what is asked for takes memory or address space, and a file that shrinks is an error.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "checkpoint/expect_error.hpp"
#include "skim/safetensors.hpp"

namespace skim::test {
namespace {

namespace fs = std::filesystem;

class Reading : public testing::Test {
 protected:
  Reading() : path_(fs::temp_directory_path() / ("skim-reading-" + std::to_string(::getpid()))) {}
  ~Reading() override { fs::remove(path_); }

  /// A file of one U8 tensor "large" and then "small" of 4 bytes, whose data are holes.
  void write_sparse(std::int64_t large) const {
    std::string header = R"({"large":{"dtype":"U8","shape":[)" + std::to_string(large) + R"(],"data_offsets":[0,)" +
                         std::to_string(large) + R"(]},"small":{"dtype":"U8","shape":[4],"data_offsets":[)" +
                         std::to_string(large) + "," + std::to_string(large + 4) + "]}}";
    const std::uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8) << header;
    file.close();
    fs::resize_file(path_, 8 + length + static_cast<std::uint64_t>(large) + 4);
  }

  fs::path path_;
};

// FAULTS-2 132: it was mapped, and what was gone ended the process (SIGBUS).
TEST_F(Reading, Fault132AFileThatShrinksIsAnError) {
  write_sparse(1 << 20);
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.tensor("large").bytes.size(), std::size_t{1} << 20);
  fs::resize_file(path_, 4096);
  expect_error(ErrorCode::bad_file, {path_.string(), "has become shorter", "byte 4096"}, [&] { file.tensor("large"); });
  std::byte few[4];
  expect_error(ErrorCode::bad_file, {"has become shorter"}, [&] { file.read("small", 0, few); });
  EXPECT_NO_THROW(file.read("large", 0, few));
  EXPECT_EQ(file.info("small").bytes, 4);
}

TEST_F(Reading, PartsOfATensor) {
  const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const TensorToWrite tensors[] = {{"a", DType::u8, {4}, bytes}};
  write_safetensors(path_, tensors, {});
  for (const SafetensorsFile& file : {SafetensorsFile::open(path_), SafetensorsFile::map(path_)}) {
    std::byte two[2];
    file.read("a", 1, two);
    EXPECT_EQ(two[0], std::byte{2});
    EXPECT_EQ(two[1], std::byte{3});
    EXPECT_NO_THROW(file.read("a", 4, {}));
    for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{5}, INT64_MIN, INT64_MAX}) {
      expect_error(ErrorCode::invalid_argument, {"'a'", "which has 4"}, [&] { file.read("a", first, two); });
    }
    expect_error(ErrorCode::tensor_mismatch, {"'b'"}, [&] { file.read("b", 0, two); });
    expect_error(ErrorCode::tensor_mismatch, {"'b'"}, [&] { file.info("b"); });
  }
}

/// Runs `action` in a child that may use only so much address space beyond what it has. Whether it returned true.
template <class Action>
bool holds_within(std::int64_t bytes, const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::ifstream statm("/proc/self/statm");
    std::int64_t pages = 0;
    statm >> pages;
    const auto most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      ::_exit(action() ? 0 : 1);
    } catch (const Error&) {
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// FAULTS-2 110: opening mapped the whole file. Under AddressSanitizer there is no address space to limit.
#ifndef __SANITIZE_ADDRESS__
TEST_F(Reading, Fault110AnOpenFileTakesNoAddressSpace) {
  write_sparse(std::int64_t{64} << 30);
  EXPECT_TRUE(holds_within(16 << 20, [&] {
    const SafetensorsFile file = SafetensorsFile::open(path_);
    if (file.info("large").bytes != std::int64_t{64} << 30 || file.tensor("small").bytes.size() != 4) return false;
    try {
      file.tensor("large");
    } catch (const Error& error) {
      return error.code() == ErrorCode::out_of_memory;
    }
    return false;
  }));
  EXPECT_FALSE(holds_within(16 << 20, [&] { return SafetensorsFile::map(path_).contains("small"); }));
}
#endif

}  // namespace
}  // namespace skim::test
