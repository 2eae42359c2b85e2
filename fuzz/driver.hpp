// What a fuzz target provides. The driver (driver.cpp) has main; it mutates a corpus and calls the target in-process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

/// Reads one input. May throw skim::Error; every other exception, a signal, more than 10 s or memory beyond
/// 64 MiB + 64 times the input is a failure.
void fuzz_one(std::span<const std::byte> input);

/// Called on half of the mutated inputs: restores what would make nearly every mutation fail in the same early check,
/// such as a length in front of a text.
void repair(std::string& input);
