#include "calls.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

namespace skim::python {
namespace {

std::shared_mutex calls;
std::atomic<bool> forked = false;

void before_fork() { calls.lock(); }
void in_parent() { calls.unlock(); }
void in_child() {
  new (&calls) std::shared_mutex;  // threads that waited for it are not here
  forked = true;
}

}  // namespace

std::shared_mutex& running_calls() { return calls; }
bool is_forked() { return forked; }
void watch_forks() { pthread_atfork(before_fork, in_parent, in_child); }

}  // namespace skim::python
