// Calls into the library: without the interpreter lock, and never half done when the process forks.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <shared_mutex>
#include <thread>

namespace skim::python {

/// Held shared by every call into the library, and alone while the process forks: so the child gets objects that nobody
/// was in the middle of changing.
std::shared_mutex& running_calls();
/// True in a child of fork(). OpenMP's threads stayed behind in the parent, but its bookkeeping of them did not.
bool is_forked();
/// To be called once, when the module is imported.
void watch_forks();

/// body() without the interpreter lock. It must not touch Python, nor call `without_interpreter` again.
template <class Body>
auto without_interpreter(Body body) {
  const nanobind::gil_scoped_release released;
  const std::shared_lock lock(running_calls());
  return body();
}

/// The same for work that OpenMP spreads over threads. In a forked child the forking thread would wait for threads that
/// are gone; a thread of its own starts its own.
template <class Body>
void on_threads(Body body) {
  without_interpreter([&] {
    if (!is_forked()) return body();
    std::exception_ptr error;
    std::thread([&] {
      try {
        body();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) std::rethrow_exception(error);
  });
}

}  // namespace skim::python
