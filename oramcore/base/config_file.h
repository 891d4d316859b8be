// Files of settings, of a server and of a named mount: lines `name = value` of the names of
// options. A value is a "text", a bare word, or a list ["a", "b"], which may go over several lines;
// of a switch the name is enough. Empty lines and what follows # are skipped.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace s3oram {

/// For CLI::App::config_formatter(). Every line is checked by itself; errors (CLI::ConfigError)
/// say the file, the line, what is wrong with it and what was probably meant.
class ConfigFile : public CLI::ConfigTOML {
 public:
  /// Parses a command line of one option, and throws CLI::ParseError if it is wrong.
  using Trial = std::function<void(const std::string& option)>;

  /// `app` has the options, and outlives this. `help` is the command that lists them.
  ConfigFile(const CLI::App& app, Trial trial, std::string help)
      : app_(app), trial_(std::move(trial)), help_(std::move(help)) {}

  /// The file is that of the app's set_config().
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  /// Reads `in` likewise; messages call the file `where`.
  std::vector<CLI::ConfigItem> read(std::istream& in, const std::string& where) const;

 private:
  const CLI::App& app_;
  const Trial trial_;
  const std::string help_;
};

}  // namespace s3oram
