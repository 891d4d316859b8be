// Texts that people, the kernel and other programs pass in: vault.json, recovery files, server
// configurations, invitations, addresses, sizes, mountinfo, records. The first byte says which.
#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/record_file.h"
#include "oramcore/base/curve_keys.h"
#include "oramcore/base/human.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/net/endpoint.h"
#include "oramcore/net/invitation.h"
#include "oramcore/vault/vault_config.h"
#include "oramcore/zmq/allow_list.h"
#include "serverd/config.h"
#include "serverd/store_files.h"
#include "tests/fuzz/input.h"

namespace s3oram::fuzz {
namespace {

// The message can be shown on a terminal, whatever is wrong with the text.
template <class T>
void showable(const Result<T>& read) {
  if (!read) require(!read.error().message.empty(), "an error has a message");
}

void vault(const std::string& text) {
  const auto read = parse_vault(text, "vault.json");
  showable(read);
  if (!read) return;
  const std::string written = to_json(*read);
  const auto again = parse_vault(written, "vault.json");
  require(again && to_json(*again) == written, "vault.json is read as it was written");
}

void recovery(const std::string& text) {
  const auto read = parse_recovery(text, "recovery");
  showable(read);
  if (!read) return;
  const std::string written = to_recovery(read->file, read->keys);
  const auto again = parse_recovery(written, "recovery");
  require(again && again->keys == read->keys, "a recovery file is read as it was written");
}

void configuration(const std::string& text) {
  CLI::App app;
  Options options;
  add_options(app, options);
  std::istringstream in(text);
  try {
    static_cast<void>(app.get_config_formatter()->from_config(in));
  } catch (const CLI::Error&) {
  }
}

void invitation(const std::string& text) {
  const auto read = parse_invitation(text);
  showable(read);
  if (!read) return;
  const auto again = parse_invitation(to_text(*read));
  require(again && to_text(*again) == to_text(*read), "an invitation is read as it was written");
}

void peer(const std::string& text) {
  const auto read = parse_peer(text);
  showable(read);
  if (!read) return;
  const auto again = parse_peer(to_text(*read));
  require(again && to_text(*again) == to_text(*read), "a peer is read as it was written");
}

void size(const std::string& text) {
  const auto bytes = parse_size(text, 512, std::uint64_t{1} << 50);
  showable(bytes);
  if (!bytes) return;
  require(*bytes >= 512 && *bytes <= std::uint64_t{1} << 50, "a size is in its range");
  require(parse_size(short_size(*bytes)) == *bytes, "a size is read as it was written");
}

void record(const std::string& text) {
  std::istringstream in(text);
  showable(parse_record(in, "record"));
}

using Reading = void (*)(const std::string&);
constexpr Reading kReadings[] = {
    vault,
    recovery,
    configuration,
    invitation,
    peer,
    size,
    record,
    [](const std::string& text) { static_cast<void>(parse_vault_mounts(text)); },
    [](const std::string& text) { showable(parse_endpoint(text)); },
    [](const std::string& text) { showable(parse_network(text)); },
    [](const std::string& text) { showable(parse_public_key(text)); },
    [](const std::string& text) {
      for (const unsigned char c : printable(text))
        require(c >= 0x20 && c != 0x7f, "what is printed controls no terminal");
    },
};

}  // namespace
}  // namespace s3oram::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  s3oram::fuzz::dispatch(s3oram::fuzz::kReadings, data, size);
  return 0;
}
