// A disk whose databases are sealed with a key.
#pragma once

#include "oramcore/base/disk.h"
#include "oramcore/db/page_seal.h"

namespace s3oram {

class SealedDisk final : public Disk {
 public:
  /// A disk on top of `below`, which must outlive it.
  explicit SealedDisk(const Seed& secret, Disk& below = system_disk())
      : key_(secret), below_(below) {}

  Result<std::unique_ptr<File>> open(const std::filesystem::path& path) override {
    return below_.open(path);
  }
  bool exists(const std::filesystem::path& path) override { return below_.exists(path); }
  std::string sqlite_vfs() const override { return below_.sqlite_vfs(); }
  const PageKey* page_key() const override { return &key_; }
  void step(std::string_view name, bool done) override { below_.step(name, done); }

 private:
  const PageKey key_;
  Disk& below_;
};

}  // namespace s3oram
