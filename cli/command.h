// The subcommands. Each has a file of its own, and a line in the table of main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

using Args = std::vector<std::string>;  // what follows the subcommand's name

Status run_init(const Args& args);
Status run_invite(const Args& args);
Status run_deploy(const Args& args);
Status run_migrate(const Args& args);
Status run_mount(const Args& args);
Status run_umount(const Args& args);
Status run_lock(const Args& args);
Status run_unlock(const Args& args);
Status run_status(const Args& args);
Status run_top(const Args& args);
Status run_bench(const Args& args);
Status run_demo(const Args& args);
Status run_record(const Args& args);
Status run_backup(const Args& args);
Status run_restore(const Args& args);
Status run_repair(const Args& args);
Status run_scrub(const Args& args);
Status run_fsck(const Args& args);
Status run_passwd(const Args& args);
Status run_rekey(const Args& args);
Status run_server(const Args& args);
Status run_security(const Args& args);
Status run_version(const Args& args);

/// Finds `text` among `names`, and stores its value. Errors: usage (lists the possible names).
template <class Names, class T>
Status take_name(const Names& names, const std::string& option, const std::string& text, T& value) {
  std::string known;
  for (const auto& [name, each] : names) {
    if (text == name) {
      value = each;
      return {};
    }
    known += (known.empty() ? "" : " or ") + std::string(name);
  }
  return fail(Errc::usage, "{} {}: write {}", option, text, known);
}

/// Parses `args` with `app`. Returns false if it has printed the help that was requested, so that
/// there is nothing left to do. Errors: usage.
Result<bool> parse(CLI::App& app, const Args& args);

/// Returns the path of the program `name`, which is installed, or was built, beside this one.
/// Errors: failed (it is missing).
Result<std::filesystem::path> program_beside(const std::string& name);

}  // namespace s3oram
