// Parses a subcommand's arguments, and finds the programs that are installed beside this one.
#include "cli/command.h"

#include <unistd.h>

#include <iostream>

#include "oramcore/base/help.h"

namespace s3oram {

Result<bool> parse(CLI::App& app, const Args& args) {
  app.formatter(std::make_shared<HelpFormatter>());
  refuse_empty_values(app);
  try {
    app.parse(Args(args.rbegin(), args.rend()));  // CLI11 takes them from the back
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    return fail(Errc::usage, "{} (see: {} --help)", error.what(), app.get_name());
  }
  return true;
}

Result<std::filesystem::path> program_beside(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Errc::failed, "/proc/self/exe: {}", error.message());
  auto program = self.parent_path() / name;
  if (::access(program.c_str(), X_OK) != 0)
    return fail(Errc::failed, "{} is missing: install all of s3oramfs in one place",
                program.string());
  return program;
}

}  // namespace s3oram
