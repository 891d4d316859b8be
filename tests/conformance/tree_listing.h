// Whole trees as text, for comparison.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

namespace s3oram::conformance {

std::string sum_of(std::string_view data);
/// Returns type, mode, owner and links, and the size unless it is a directory.
std::string attributes_text(const struct stat& found);
/// Returns the sorted names of a directory with their types, or an errno.
std::string names_text(const char* path);
/// Returns a line for everything below the directory `root`: path, attributes, extended attributes,
/// target or sum of the content, and the first path of a file with several names.
std::vector<std::string> list_tree(int root);

}  // namespace s3oram::conformance
