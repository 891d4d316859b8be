// The directories that programs have open, and their listings.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fused/file_system.h"

namespace s3oram {

/// An open directory: its entries as they were when it was read from the start. Reading goes on
/// after the cookie of the last entry. A cookie depends on the name alone, and entries come in the
/// order of theirs: so one may go on in a listing that is newer than that of the cookie, and finds
/// all that was there all the time.
struct OpenDirectory {
  struct Entry {
    off_t cookie = 0;
    DirectoryEntry entry;
  };
  /// Takes a new listing. With the mutex held, as the one below.
  void take(std::vector<DirectoryEntry> listing);
  /// The first one after this cookie.
  std::vector<Entry>::const_iterator after(off_t cookie) const;

  const Ino ino;
  std::mutex mutex;
  bool all = true;             // else damage may hide others
  std::vector<Entry> entries;  // empty until the first listing, which has "." and ".."
};

/// Any thread.
class OpenDirectories {
 public:
  /// `alone`: nobody else has it open. Until close().
  OpenDirectory& open(Ino ino, bool& alone);
  void close(const OpenDirectory& directory);

 private:
  std::mutex mutex_;
  std::unordered_map<const OpenDirectory*, std::unique_ptr<OpenDirectory>> open_;
  std::unordered_map<Ino, unsigned> users_;
};

}  // namespace s3oram
