// Puts the options of a mount together. The daemon gets plain options, so that neither files nor
// the environment can change them when it executes itself again, as for a lock.
#include "cli/mount_words.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "cli/vault_argument.h"
#include "fused/options/mount_settings.h"
#include "fused/options/options.h"
#include "oramcore/base/spelling.h"

namespace s3oram {
namespace {

struct Variable {
  const char* name;
  const char* option;
};
constexpr std::array kOptionVariables = {
    Variable{"S3ORAMFS_PASSFILE", "--passfile"}, Variable{"S3ORAMFS_PASSPROG", "--passprog"},
    Variable{"S3ORAMFS_KEYFILE", "--keyfile"}, Variable{"S3ORAMFS_LOG_LEVEL", "--log-level"},
    Variable{"S3ORAMFS_MOUNT_OPTIONS", "-o"}};

/// Returns whether one of these words, or an entry of a list after -o, says what opens the vault.
bool say_credential(const Args& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return std::ranges::any_of(
        std::array{"passfile=", "passprog=", "keyfile="}, [&](const char* name) {
          return word.starts_with(name) || word.starts_with("--" + std::string(name)) ||
                 word.find("," + std::string(name)) != std::string::npos;
        });
  });
}

/// Returns the words that the environment adds, checked.
Result<Args> words_of_environment() {
  Args words;
  for (const Variable& variable : kOptionVariables) {
    const std::string value = variable_of(variable.name);
    if (value.empty()) continue;
    const bool is_list = std::string_view(variable.option) == "-o";
    const Args word{fmt::format("{}={}", variable.option, value)};
    if (const std::string why = why_no_mount_option(is_list ? Args{"-o", value} : word);
        !why.empty())
      return fail(Errc::usage, "{}={}: {}", variable.name, value, why);
    const Args more = is_list ? words_of_list(value) : word;
    words.insert(words.end(), more.begin(), more.end());
  }
  if (const std::string why = why_no_mount_option(words); !why.empty())
    return fail(Errc::usage, "the variables S3ORAMFS_*: {}", why);
  return words;
}

std::string known_names() {
  const auto names = mount_names();
  return names.empty()
             ? fmt::format("to define a name, write a file NAME in {} (see: man s3oramfs)",
                           settings_folder().string())
             : fmt::format("the names in {} are: {}", settings_folder().string(),
                           fmt::join(names, ", "));
}

tl::unexpected<Error> unknown(const std::string& name) {
  const std::string meant = nearest_word(name, mount_names());
  return fail(Errc::not_a_vault, "{}: there is no such vault, and no such name{}; {}", name,
              meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant), known_names());
}

}  // namespace

Result<Args> mount_words(const Args& args) {
  S3O_ASSIGN(auto given, split_mount_words(args));
  if (given.help) return Args{"--help"};
  S3O_ASSIGN(Args environment, words_of_environment());
  std::string vault = given.vault.empty() ? variable_of(kVaultVariable) : given.vault;
  std::string directory =
      given.directory.empty() ? variable_of("S3ORAMFS_DIRECTORY") : given.directory;
  if (vault.empty())
    return fail(Errc::usage, "say what to mount: s3oramfs mount VAULT DIRECTORY, or NAME; {}",
                known_names());
  S3O_ASSIGN(const auto named, named_mount(vault));
  std::error_code error;
  if (!named && vault.find('/') == std::string::npos && !std::filesystem::exists(vault, error))
    return unknown(vault);
  Args words;
  if (named) {
    vault = named->vault;
    if (directory.empty()) directory = named->directory;
    words = named->options;
  }
  if (directory.empty())
    return fail(Errc::usage, "{}: say where to mount it: {}", vault,
                named ? fmt::format("add directory = \"PATH\" to {}", named->file.string())
                      : "s3oramfs mount VAULT DIRECTORY");
  // There is only one credential, so a later word that gives one replaces all earlier ones.
  const auto add = [&](const Args& more) {
    if (say_credential(more))
      std::erase_if(words, [](const std::string& word) { return say_credential({word}); });
    words.insert(words.end(), more.begin(), more.end());
  };
  add(environment);
  add(given.options);
  words.insert(words.end(), {"--", vault, directory});
  return words;
}

}  // namespace s3oram
