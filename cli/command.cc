#include "cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace s3oram {
namespace {

// Without what CLI::Range adds: "A:INT in [1 - 9]" is A, and so for UINT.
std::string type_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return name.substr(0, std::min(name.find(":INT in "), name.find(":UINT in ")));
}

// An option with the name of its value and its default, and nothing more.
class Formatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return "";
    const std::string value = option->get_default_str();
    return " " + type_of(*option) + (value.empty() ? "" : " (" + value + ")");
  }
};

}  // namespace

Result<bool> parse(CLI::App& app, const Args& args) {
  app.formatter(std::make_shared<Formatter>());
  app.get_formatter()->column_width(30);
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
