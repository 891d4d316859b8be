// Translates the arguments of mount(8) and umount(8) into those of this program.
#include "cli/mount_helper.h"

#include <algorithm>

namespace s3oram {
namespace {

struct HelperArguments {
  Args names;           // words that are neither options nor their values
  std::string flags;    // single letters
  std::string options;  // the lists after -o, joined
};

// Letters may be combined in one word, and the last of them may have a value.
Result<HelperArguments> read(const Args& args, std::string_view known) {
  HelperArguments read;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word.size() < 2 || word[0] != '-') {
      read.names.push_back(word);
      continue;
    }
    if (word.starts_with("--"))
      return fail(Errc::usage, "{}: no such option of mount(8) or umount(8)", word);
    for (std::size_t at = 1; at < word.size(); ++at) {
      const char letter = word[at];
      if (letter == 'N')
        return fail(Errc::usage,
                    "-N: run mount or umount in that namespace instead: nsenter --mount=FILE ...");
      if (known.find(letter) == std::string_view::npos)
        return fail(Errc::usage, "-{}: no such option of mount(8) or umount(8)", letter);
      if (letter != 'o' && letter != 't') {
        read.flags.push_back(letter);
        continue;
      }
      const bool attached = at + 1 < word.size();
      if (!attached && ++i == args.size())
        return fail(Errc::usage, "-{}: its value is missing", letter);
      const std::string value = attached ? word.substr(at + 1) : args[i];
      if (letter == 'o') read.options += (read.options.empty() ? "" : ",") + value;
      break;
    }
  }
  return read;
}

bool has(const HelperArguments& read, char flag) {
  return read.flags.find(flag) != std::string::npos;
}

}  // namespace

Result<Args> mount_arguments(const Args& args) {
  S3O_ASSIGN(auto given, read(args, "sfnvot"));
  if (given.names.size() != 2)
    return fail(
        Errc::usage,
        "usage: mount.s3oramfs VAULT DIRECTORY [-sfnv] [-o OPTION,...], as mount(8) calls it");
  Args words;
  if (has(given, 's')) words.push_back("--sloppy");
  if (has(given, 'f')) words.push_back("--fake");
  if (!given.options.empty()) words.insert(words.end(), {"-o", given.options});
  words.insert(words.end(), {"--", given.names[0], given.names[1]});
  return words;
}

Result<Args> umount_arguments(const Args& args) {
  S3O_ASSIGN(auto given, read(args, "flnrvt"));
  if (given.names.size() != 1)
    return fail(Errc::usage,
                "usage: umount.fuse.s3oramfs DIRECTORY [-flnv], as umount(8) calls it");
  if (has(given, 'r'))
    return fail(Errc::usage, "-r: a vault cannot be made read-only while it is mounted");
  Args words;
  if (has(given, 'f')) words.push_back("--force");
  if (has(given, 'l')) words.push_back("--lazy");
  words.insert(words.end(), {"--", given.names[0]});
  return words;
}

HelperRole helper_role(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  if (name == "mount.s3oramfs" || name == "mount.fuse.s3oramfs") return HelperRole::mount;
  if (name == "umount.fuse.s3oramfs") return HelperRole::umount;
  return HelperRole::none;
}

int mount_exit_code(int code) {
  if (code == 0) return 0;
  return code == static_cast<int>(Errc::usage) ? 1 : 32;
}

}  // namespace s3oram
