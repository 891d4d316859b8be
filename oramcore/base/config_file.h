// Files of settings, for a server or a named mount: lines `name = value`, with the names of
// options. A value is a "text", a bare word, or a list ["a", "b"], which may span several lines; a
// switch needs no value. Empty lines and anything after # are ignored.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace s3oram {

/// A formatter for CLI::App::config_formatter(). Checks each line separately. Errors
/// (CLI::ConfigError) name the file and the line, say what is wrong, and suggest what was probably
/// meant.
class ConfigFile : public CLI::ConfigTOML {
 public:
  /// Parses a command line with one option, and throws CLI::ParseError if it is wrong.
  using Trial = std::function<void(const std::string& option)>;

  /// `app` has the options, and must outlive this. `help` is the command that lists them.
  ConfigFile(const CLI::App& app, Trial trial, std::string help)
      : app_(app), trial_(std::move(trial)), help_(std::move(help)) {}

  /// Reads the file given to the app's set_config().
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  /// Reads `in` in the same way; messages call the file `where`.
  std::vector<CLI::ConfigItem> read(std::istream& in, const std::string& where) const;

 private:
  const CLI::App& app_;
  const Trial trial_;
  const std::string help_;
};

}  // namespace s3oram
