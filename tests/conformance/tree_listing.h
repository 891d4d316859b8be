// Whole trees as text, to be compared.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

namespace s3oram::conformance {

std::string sum_of(std::string_view data);
/// Type, mode, owner, and for all but directories links and size; for directories links.
std::string attributes_text(const struct stat& found);
/// The sorted names of a directory with their types, or an errno.
std::string names_text(const char* path);
/// A line for everything below the directory `root`: path, attributes, extended
/// attributes, target or sum of the content, and its first path for a file with several names.
std::vector<std::string> list_tree(int root);

}  // namespace s3oram::conformance
