// A thread pool without threads, which does one piece of work at a time. When it shuffles, the
// order comes from a seed, and some pieces are postponed until there is nothing else to do. Errors
// that this reveals could also happen on a pool of real threads.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <memory>
#include <random>
#include <vector>

namespace s3oram::test {

class ShuffledPool {
 public:
  explicit ShuffledPool(std::uint64_t seed) : random_(seed) {}

  boost::asio::any_io_executor executor();

  bool shuffle = false;

  /// Returns whether the pool should run some of its work now.
  bool toss() { return !shuffle || random_() % 2 == 0; }
  /// Does one piece of work, a postponed one only with `stuck_too`. Returns false if there is none.
  bool run_one(bool stuck_too) {
    auto& from = !ready_.empty() ? ready_ : stuck_;
    if (from.empty() || (&from == &stuck_ && !stuck_too)) return false;
    const auto chosen = from.begin() + (shuffle ? random_() % from.size() : 0);
    const auto work = std::move(*chosen);
    from.erase(chosen);
    work->run();
    return true;
  }

 private:
  struct Work {
    virtual ~Work() = default;
    virtual void run() = 0;
  };
  template <class F>
  struct WorkOf final : Work {
    explicit WorkOf(F f) : function(std::move(f)) {}
    void run() override { std::move(function)(); }
    F function;
  };

  /// An executor in the sense of Boost.Asio.
  struct Handle {
    ShuffledPool* pool;
    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
      return pool->context_;
    }
    Handle require(boost::asio::execution::blocking_t::never_t) const noexcept { return *this; }
    template <class F>
    void execute(F f) const {
      auto& to = pool->shuffle && pool->random_() % 16 == 0 ? pool->stuck_ : pool->ready_;
      to.push_back(std::make_unique<WorkOf<F>>(std::move(f)));
    }
    friend bool operator==(const Handle&, const Handle&) noexcept = default;
  };

  boost::asio::execution_context context_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Work>> ready_, stuck_;
};

inline boost::asio::any_io_executor ShuffledPool::executor() { return Handle{this}; }

}  // namespace s3oram::test
