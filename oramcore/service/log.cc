// Chooses the log's format, for a terminal or for the journal.
#include "oramcore/service/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace s3oram {
namespace {

/// Formats a message's priority with the numbers of syslog.
class Priority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const auto digit = [&] {
      switch (message.level) {
        case spdlog::level::critical:
          return '2';
        case spdlog::level::err:
          return '3';
        case spdlog::level::warn:
          return '4';
        case spdlog::level::info:
          return '6';
        default:
          return '7';
      }
    };
    for (const char c : {'<', digit(), '>'}) out.push_back(c);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Priority>();
  }
};

}  // namespace

bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat file {};
  return stream && ::fstat(STDERR_FILENO, &file) == 0 &&
         stream == fmt::format("{}:{}", file.st_dev, file.st_ino);
}

void log_to_stderr(const std::string& name) {
  spdlog::drop(name);
  if (!stderr_is_journal()) {
    spdlog::set_default_logger(spdlog::stderr_color_mt(name));
    return;
  }
  auto logger = spdlog::stderr_logger_mt(name);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Priority>('*').set_pattern("%*%v");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace s3oram
