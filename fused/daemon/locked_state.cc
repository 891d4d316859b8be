// Passes the state on to the next program in a file in memory, and the descriptors by their
// numbers.
#include "fused/daemon/locked_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

using nlohmann::json;

constexpr std::string_view kWord = "--resume=";

json to_json(const LockedState& state) {
  json references = json::array(), writers = json::array();
  for (const auto& [ino, count] : state.references.counts) references.push_back({ino, count});
  for (const OpenWriter& each : state.mount.writers)
    writers.push_back({each.ino, each.descriptors, each.incomplete});
  return {{"device", state.mount.device.get()},
          {"init", std::vector<std::uint8_t>(state.mount.init.begin(), state.mount.init.end())},
          {"writers", writers},
          {"references", references},
          {"unnamed", state.references.unnamed},
          {"vault_lock", state.vault_lock.get()},
          {"vault", state.vault},
          {"mountpoint", state.mountpoint},
          {"since", state.since},
          {"background", state.background}};
}

/// Reads the state. The text comes from this program itself, so an error in it is a bug, and
/// throws.
LockedState from_json(const json& text) {
  LockedState state;
  state.mount.device = Descriptor(text.at("device").get<int>());
  for (const std::uint8_t byte : text.at("init"))
    state.mount.init.push_back(static_cast<char>(byte));
  for (const json& each : text.at("writers"))
    state.mount.writers.push_back(
        {each.at(0).get<Ino>(), each.at(1).get<unsigned>(), each.at(2).get<bool>()});
  for (const json& each : text.at("references"))
    state.references.counts[each.at(0).get<Ino>()] = each.at(1).get<std::uint64_t>();
  state.references.unnamed = text.at("unnamed").get<std::vector<Ino>>();
  state.vault_lock = Descriptor(text.at("vault_lock").get<int>());
  state.vault = text.at("vault").get<std::string>();
  state.mountpoint = text.at("mountpoint").get<std::string>();
  state.since = text.at("since").get<std::int64_t>();
  state.background = text.at("background").get<bool>();
  return state;
}

/// Encodes the state as CBOR. JSON text must be UTF-8, but paths may be any bytes.
std::vector<std::uint8_t> packed(const LockedState& state) { return json::to_cbor(to_json(state)); }

bool write_all(int file, const std::vector<std::uint8_t>& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = ::write(file, bytes.data() + at, bytes.size() - at);
    if (written <= 0) return false;
    at += static_cast<std::size_t>(written);
  }
  return true;
}

std::vector<std::uint8_t> read_all(int file) {
  std::vector<std::uint8_t> bytes(
      static_cast<std::size_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0)));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::pread(file, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got <= 0) return {};
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

void keep_on_exec(int file, bool keep) { ::fcntl(file, F_SETFD, keep ? 0 : FD_CLOEXEC); }

}  // namespace

Error execute_locked(const LockedState& state, int argc, char** argv) {
  const Descriptor text(::memfd_create("s3oramfs-locked", MFD_CLOEXEC));
  if (text.get() < 0 || !write_all(text.get(), packed(state)))
    return system_failure(errno, "the mount cannot be locked").value();
  std::string word = std::string(kWord) + std::to_string(text.get());
  std::vector<char*> words{argv[0], word.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  for (const int file : {text.get(), state.mount.device.get(), state.vault_lock.get()})
    keep_on_exec(file, true);
  ::execv("/proc/self/exe", words.data());
  const int error = errno;
  return system_failure(error, "the mount cannot be locked: its program cannot be run").value();
}

Result<std::optional<LockedState>> take_locked_state(int& argc, char** argv) {
  if (argc < 2 || !std::string_view(argv[1]).starts_with(kWord))
    return std::optional<LockedState>();
  const std::string_view number = std::string_view(argv[1]).substr(kWord.size());
  int file = -1;
  std::from_chars(number.data(), number.data() + number.size(), file);
  std::copy(argv + 2, argv + argc + 1, argv + 1);  // copies the null pointer at the end too
  --argc;
  const Descriptor text(file);
  const auto state = json::from_cbor(read_all(file), true, false);
  if (!state.is_object()) return fail(Errc::failed, "the state of the locked mount cannot be read");
  LockedState taken = from_json(state);
  for (const int each : {taken.mount.device.get(), taken.vault_lock.get()})
    keep_on_exec(each, false);
  ::prctl(PR_SET_NAME, "s3oramfs-fused");  // it was executed under another name
  return std::optional(std::move(taken));
}

}  // namespace s3oram
