// Notices that a store is no longer the one that was opened, and reopens it.
#include "serverd/oram/store_care.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace s3oram {

StoreCare::StoreCare(Executor executor, Party self, std::filesystem::path store, Disk& disk,
                     Hooks server)
    : executor_(std::move(executor)),
      self_(self),
      server_(std::move(server)),
      changes_(std::move(store), disk) {}

void StoreCare::fall_ill(const Error& ailment) {
  if (!ailment_ || ailment_->message != ailment.message)
    spdlog::error("{}; until that is put right, every request is refused", ailment.message);
  ailment_ = ailment;
  server_.stop(*ailment_);
}

void StoreCare::look_after() {
  if (recovering_) return;
  if (!ailment_) {
    if (Status there = server_.still_there(); !there)
      fall_ill({there.error().code, fmt::format("server {}: {}{}", self_, there.error().message,
                                                there.error().code == Errc::damaged_vault
                                                    ? "; put the newest copy of its store back"
                                                    : "")});
    changes_.forget();
    return;
  }
  if (!changes_.have_ended()) return;
  recovering_ = true;
  spawn(executor_, recover());
}

Task<void> StoreCare::recover() {
  co_await server_.quiet();
  if (Status again = server_.reopen(); !again) fall_ill(again.error());
  if (!ailment_)
    spdlog::info("server {}: its store is whole again, and the server carries on", self_);
  recovering_ = false;
  ended_.notify_all();
}

Task<void> StoreCare::ended() {
  while (recovering_) co_await ended_.wait();
}

}  // namespace s3oram
