// Reads and writes vault.json and the text from which a vault is recovered.
#include "oramcore/vault/vault_config.h"

#include <sodium.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "oramcore/base/format_number.h"
#include "oramcore/net/endpoint.h"
#include "oramcore/vault/key_file.h"

namespace s3oram {
namespace {

using nlohmann::json;

constexpr std::uint64_t kFormat = 5;
constexpr std::uint64_t kFormatBeforeMoves = 4;
constexpr std::uint64_t kFormatBeforeSeals = 3;
constexpr std::uint64_t kFormatBeforeSlots = 2;
constexpr auto kRecovery = "s3oramfs recovery";
constexpr std::uint64_t kRecoveryFormat = 2;
constexpr std::string_view kChecksum = ",\"checksum\":\"";
constexpr int kBase64 = sodium_base64_VARIANT_ORIGINAL;

template <std::size_t N>
std::string to_hex(const std::array<std::uint8_t, N>& bytes) {
  std::string text(2 * N + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), N);
  text.pop_back();
  return text;
}

// Takes the members of a JSON object one by one. Keeps the first error, and reports members that
// were not taken.
class Members {
 public:
  Members(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) say("is not an object");
  }

  const json* take(const char* name) {
    taken_.insert(name);
    const auto at = object_.is_object() ? object_.find(name) : object_.end();
    if (at != object_.end()) return &*at;
    say(fmt::format("has no \"{}\"", name));
    return nullptr;
  }
  bool has(const char* name) const { return object_.is_object() && object_.contains(name); }
  bool boolean(const char* name) {
    const json* value = take(name);
    if (value && !value->is_boolean()) say(fmt::format("\"{}\" is not true or false", name));
    return value && value->is_boolean() && value->get<bool>();
  }
  template <class T>
  T number(const char* name) {
    const json* value = take(name);
    if (!value) return 0;
    if (value->is_number_unsigned() && value->get<std::uint64_t>() <= std::numeric_limits<T>::max())
      return value->get<T>();
    say(fmt::format("\"{}\" is not a number from 0 to {}", name, std::numeric_limits<T>::max()));
    return 0;
  }
  std::string text(const char* name) {
    const json* value = take(name);
    if (value && !value->is_string()) say(fmt::format("\"{}\" is not a string", name));
    return value && value->is_string() ? value->get<std::string>() : std::string();
  }
  template <std::size_t N>
  std::array<std::uint8_t, N> hex(const char* name) {
    std::array<std::uint8_t, N> bytes{};
    const std::string digits = text(name);
    std::size_t size = 0;
    if (digits.size() != 2 * N ||
        sodium_hex2bin(bytes.data(), N, digits.data(), digits.size(), nullptr, &size, nullptr) != 0)
      say(fmt::format("\"{}\" is not {} hexadecimal digits", name, 2 * N));
    return bytes;
  }

  void say(std::string what) {
    if (status_) status_ = fail(Errc::damaged_vault, "{} {}", where_, what);
  }
  void say(Error error) { say(std::move(error.message)); }
  Status end() {
    if (object_.is_object())
      for (const auto& [name, value] : object_.items())
        if (!taken_.contains(name)) say(fmt::format("has an unknown \"{}\"", name));
    return std::move(status_);
  }

 private:
  const json& object_;
  std::string where_;
  std::set<std::string> taken_;
  Status status_;
};

json wrap_to_json(const KeyWrap& wrap) {
  switch (wrap.kind) {
    case KeyWrap::Kind::plain:
      return {{"wrap", "plain"}};
    case KeyWrap::Kind::key_file:
      return {{"wrap", "key_file"}};
    case KeyWrap::Kind::passphrase:
      break;
  }
  return {{"wrap", "passphrase"},
          {"salt", to_hex(wrap.salt)},
          {"passes", wrap.limits.passes},
          {"memory", wrap.limits.memory}};
}

Result<KeyWrap> parse_wrap(const json& object, const std::string& where) {
  Members members(object, where + ": \"key\"");
  KeyWrap wrap;
  const std::string kind = members.text("wrap");
  if (kind == "passphrase") {
    wrap.kind = KeyWrap::Kind::passphrase;
    wrap.salt = members.hex<16>("salt");
    wrap.limits.passes = members.number<std::uint64_t>("passes");
    wrap.limits.memory = members.number<std::uint64_t>("memory");
    if (!wrap.limits.possible()) members.say("has impossible \"passes\" or \"memory\"");
  } else if (kind == "key_file") {
    wrap.kind = KeyWrap::Kind::key_file;
  } else if (kind != "plain") {
    members.say(fmt::format("has an unknown \"wrap\", \"{}\"", kind));
  }
  S3O_TRY(members.end());
  return wrap;
}

Result<ServerAddress> parse_server(const json& object, const std::string& where, bool local) {
  Members members(object, where + ": a server");
  ServerAddress server;
  if (!local) {
    server.host_port = members.text("address");
    if (server.host_port.empty())
      members.say("has no address");
    else if (auto endpoint = parse_endpoint("tcp://" + server.host_port); !endpoint)
      members.say(std::move(endpoint).error());
    if (auto key = parse_public_key(members.text("key")))
      server.key = *key;
    else
      members.say("has a malformed \"key\"");
  }
  S3O_TRY(members.end());
  return server;
}

// Returns the checksum of the text of a recovery file up to kChecksum.
std::string checksum(std::string_view text) {
  std::array<std::uint8_t, 16> sum;
  crypto_generichash(sum.data(), sum.size(), as_bytes(text).data(), text.size(), nullptr, 0);
  return to_hex(sum);
}

Result<VaultRecovery> read_recovery(const std::string& text, const std::filesystem::path& path) {
  const std::string where = path.string();
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains(kRecovery))
    return fail(Errc::damaged_vault, "{}: not a file that s3oramfs backup --keys has written",
                where);
  Members members(object, where + ":");
  const auto format = members.number<std::uint64_t>(kRecovery);
  const auto covered = std::string_view(text).substr(0, text.rfind(kChecksum));
  const bool has_sum = format > 1 || members.has("checksum");
  const bool as_written = !has_sum || members.text("checksum") == checksum(covered);
  if (format > kRecoveryFormat) return unknown_format(where, format, kRecoveryFormat);
  const json* vault = members.take("vault");
  const std::string encoded = members.text("keys");
  VaultRecovery recovery;
  recovery.as_written = as_written;
  recovery.keys.resize(encoded.size());
  std::size_t size = 0;
  if (encoded.empty() ||
      sodium_base642bin(recovery.keys.data(), recovery.keys.size(), encoded.data(), encoded.size(),
                        nullptr, &size, nullptr, kBase64) != 0)
    members.say("\"keys\" is not base64");
  recovery.keys.resize(size);
  if (Status complete = members.end(); !complete) return fail(complete.error());
  S3O_ASSIGN(auto file, parse_vault(vault->dump(), path));
  recovery.file = std::move(file);
  S3O_ASSIGN([[maybe_unused]] const auto keys, parse_keys(recovery.keys, recovery.file.wrap, path));
  return recovery;
}

/// Returns the oldest format that can express everything in `file`.
std::uint64_t format_of(const VaultFile& file) {
  if (file.config.own_key || file.config.source) return kFormat;
  if (file.config.params.security != Security::honest_but_curious) return kFormatBeforeMoves;
  return file.wrap            ? kFormatBeforeSlots
         : file.config.sealed ? kFormatBeforeMoves
                              : kFormatBeforeSeals;
}

/// Adds the members that describe a volume, whether it is the vault's or the source of a migration.
void add_volume(nlohmann::ordered_json& object, const VaultConfig& config) {
  nlohmann::ordered_json servers = nlohmann::ordered_json::array();
  for (const ServerAddress& server : config.servers) {
    auto entry = nlohmann::ordered_json::object();
    if (!config.local) {
      entry["address"] = server.host_port;
      entry["key"] = to_text(server.key);
    }
    servers.push_back(std::move(entry));
  }
  object["volume"] = to_hex(config.volume);
  object["local"] = config.local;
  // Older versions know only one scheme, and do not name it.
  if (config.params.kind() != SchemeKind::s3oram)
    object["scheme"] = name_of(kSchemes, config.params.kind());
  object["privacy"] = config.params.scheme.threshold;
  object["block_size"] = config.params.block_size;
  object["bucket_size"] = config.params.bucket_size;
  object["evict_every"] = config.params.evict_every;
  object["evictor"] = name_of(kEvictors, config.params.evictor);
  object["stash_slots"] = config.params.stash_slots;
  object["sharing"] = name_of(kPrivacies, config.params.privacy);
  object["first_height"] = config.params.first_height;
  if (config.params.is_ring()) object["top_levels"] = config.params.top_levels;
  if (config.params.security != Security::honest_but_curious)
    object["security"] = name_of(kSecurities, config.params.security);
  if (config.own_key) object["own_key"] = true;
  object["servers"] = std::move(servers);
}

/// Takes the members of a volume, except its servers, which it returns.
const json* take_volume(Members& members, VaultConfig& config, bool may_have_security) {
  config.volume = members.hex<16>("volume");
  config.local = members.boolean("local");
  config.params.scheme.threshold = members.number<std::uint8_t>("privacy");
  config.params.block_size = members.number<std::uint32_t>("block_size");
  config.params.bucket_size = members.number<std::uint16_t>("bucket_size");
  config.params.evict_every = members.number<std::uint16_t>("evict_every");
  const auto one_of = [&members](const auto& names, const char* member, auto& value) {
    const std::string given = members.text(member);
    for (const auto& [name, each] : names) {
      if (given != name) continue;
      value = each;
      return;
    }
    members.say(fmt::format("has an unknown \"{}\", \"{}\"", member, given));
  };
  one_of(kEvictors, "evictor", config.params.evictor);
  SchemeKind scheme = SchemeKind::s3oram;
  if (members.has("scheme")) one_of(kSchemes, "scheme", scheme);
  if (scheme != config.params.kind())
    members.say(fmt::format("has a \"scheme\", {}, that has no evictor \"{}\"",
                            name_of(kSchemes, scheme), name_of(kEvictors, config.params.evictor)));
  config.params.stash_slots = members.number<std::uint16_t>("stash_slots");
  one_of(kPrivacies, "sharing", config.params.privacy);
  config.params.first_height = members.number<std::uint8_t>("first_height");
  if (config.params.is_ring())
    config.params.top_levels = members.number<std::uint8_t>("top_levels");
  if (may_have_security && members.has("security"))
    one_of(kSecurities, "security", config.params.security);
  return members.take("servers");
}

Status parse_servers_of(VaultConfig& config, const json& servers, const std::string& where) {
  if (!servers.is_array() || servers.size() > 255)
    return fail(Errc::damaged_vault, "{}: \"servers\" is not a list of at most 255", where);
  for (const json& entry : servers) {
    S3O_ASSIGN(auto server, parse_server(entry, where, config.local));
    config.servers.push_back(std::move(server));
  }
  config.params.scheme.servers = static_cast<std::uint8_t>(config.servers.size());
  if (Status possible = check_params(config.params); !possible)
    return fail(Errc::damaged_vault, "{}: {}", where, possible.error().message);
  return {};
}

Result<MigrationSource> parse_source(const json& object, const std::string& where) {
  Members members(object, where);
  MigrationSource source;
  source.volume.ready = true;
  source.rate = members.number<std::uint64_t>("rate");
  if (members.has("own_key")) source.volume.own_key = members.boolean("own_key");
  const json* servers = take_volume(members, source.volume, true);
  S3O_TRY(members.end());
  S3O_TRY(parse_servers_of(source.volume, *servers, where));
  return source;
}

}  // namespace

std::string to_json(const VaultFile& file) {
  nlohmann::ordered_json object;
  object["format"] = format_of(file);
  object["ready"] = file.config.ready;
  add_volume(object, file.config);
  if (const auto& source = file.config.source) {
    nlohmann::ordered_json from;
    from["rate"] = source->rate;
    add_volume(from, source->volume);
    object["moving_from"] = std::move(from);
  }
  if (file.wrap) object["key"] = wrap_to_json(*file.wrap);
  return object.dump(2) + "\n";
}

Result<VaultFile> parse_vault(const std::string& text, const std::filesystem::path& path) {
  const std::string where = path.string();
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return fail(Errc::damaged_vault, "{}: not JSON", where);

  Members members(object, where + ":");
  const auto format = members.number<std::uint64_t>("format");
  if (format == 0) members.say("has an impossible \"format\"");
  if (format > kFormat || (format != 0 && format < kFormatBeforeSlots))
    return unknown_format(where, format, kFormat);

  VaultFile file;
  VaultConfig& config = file.config;
  config.sealed = format > kFormatBeforeSeals;
  config.ready = members.boolean("ready");
  if (format >= kFormat && members.has("own_key")) config.own_key = members.boolean("own_key");
  const json* servers = take_volume(members, config, format >= kFormatBeforeMoves);
  const bool moving = format >= kFormat && members.has("moving_from");
  const json* source = moving ? members.take("moving_from") : nullptr;
  const bool wrapped =
      format == kFormatBeforeSlots || (format >= kFormatBeforeMoves && members.has("key"));
  const json* wrap = wrapped ? members.take("key") : nullptr;
  S3O_TRY(members.end());

  S3O_TRY(parse_servers_of(config, *servers, where));
  if (source) {
    S3O_ASSIGN(auto parsed, parse_source(*source, where + ": \"moving_from\""));
    config.source = std::make_shared<const MigrationSource>(std::move(parsed));
  }
  if (!wrap) return file;
  S3O_ASSIGN(auto parsed, parse_wrap(*wrap, where));
  file.wrap = parsed;
  return file;
}

std::string to_recovery(const VaultFile& file, ByteSpan keys) {
  std::string encoded(sodium_base64_ENCODED_LEN(keys.size(), kBase64), '\0');
  sodium_bin2base64(encoded.data(), encoded.size(), keys.data(), keys.size(), kBase64);
  encoded.pop_back();
  nlohmann::ordered_json object;
  object[kRecovery] = kRecoveryFormat;
  object["vault"] = nlohmann::ordered_json::parse(to_json(file));
  object["keys"] = encoded;
  std::string text = object.dump();
  text.pop_back();
  return fmt::format("{0}{1}{2}\"}}\n", text, kChecksum, checksum(text));
}

Result<VaultRecovery> parse_recovery(const std::string& text, const std::filesystem::path& path) {
  auto recovery = read_recovery(text, path);
  if (recovery || recovery.error().code != Errc::damaged_vault) return recovery;
  return fail(Errc::damaged_vault,
              "{}; use another copy of it, or write it again with s3oramfs backup --keys, if the "
              "vault is still there",
              recovery.error().message);
}

}  // namespace s3oram
