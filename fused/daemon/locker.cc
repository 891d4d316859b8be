// Makes the kernel drop what it has cached, between two syncs.
#include "fused/daemon/locker.h"

#include <cstring>

namespace s3oram {

Status sync(FileSystem& files) {
  const auto synced = files.sync_all();
  if (synced) return {};
  return fail(code_of_barrier(synced.error()),
              "not everything is durable yet ({}); the rest stays in memory and will be retried",
              std::strerror(synced.error()));
}

Status Locker::lock() {
  const std::lock_guard guard(mutex_);
  if (done_) return {};
  S3O_TRY(sync(files_));
  mount_.withdraw();
  if (auto synced = sync(files_); !synced) {
    mount_.readmit();
    return synced;
  }
  mount_.suspend();
  done_ = true;
  return {};
}

}  // namespace s3oram
