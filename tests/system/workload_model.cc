// Keeps the log of a worker's operations, and checks names and files after a crash.
#include "tests/system/workload_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace s3oram::workload {
namespace {

// Without its own log the test cannot decide anything.
[[noreturn]] void broken(const std::filesystem::path& path) {
  std::cerr << "workload: " << path.string() << ": " << std::strerror(errno) << "\n";
  std::exit(2);
}

void change_tree(Tree& tree, const NameChange& change) {
  switch (change.kind) {
    case 'c':
    case 'm':
      tree[change.path] = {change.ino, change.kind == 'm'};
      break;
    case 'u':
      tree.erase(change.path);
      break;
    case 'n': {
      Tree moved;
      const std::string inside = change.path + "/";
      for (auto at = tree.begin(); at != tree.end();) {
        if (at->first == change.path || at->first.starts_with(inside)) {
          moved[change.target + at->first.substr(change.path.size())] = at->second;
          at = tree.erase(at);
        } else {
          ++at;
        }
      }
      for (const auto& [path, name] : moved) tree[path] = name;
      break;
    }
  }
}

bool same(const Tree& seen, const Tree& wanted) {
  if (seen.size() != wanted.size()) return false;
  for (auto a = seen.begin(), b = wanted.begin(); a != seen.end(); ++a, ++b)
    if (a->first != b->first || a->second.directory != b->second.directory ||
        (b->second.ino != 0 && a->second.ino != b->second.ino))
      return false;
  return true;
}

std::string difference(const Tree& seen, const Tree& wanted) {
  std::ostringstream out;
  for (const auto& [path, name] : wanted)
    if (!seen.contains(path))
      out << "\n  missing: " << path << " (" << name.ino << ")";
    else if (name.ino != 0 && seen.at(path).ino != name.ino)
      out << "\n  " << path << " is " << seen.at(path).ino << " instead of " << name.ino;
  for (const auto& [path, name] : seen)
    if (!wanted.contains(path)) out << "\n  too many: " << path << " (" << name.ino << ")";
  return out.str();
}

std::string describe(const NameChange& change) {
  return std::string(1, change.kind) + " " + change.path + " " + change.target;
}

}  // namespace

Model::Model(std::filesystem::path folder, unsigned worker)
    : folder_(std::move(folder)), worker_(worker) {
  std::filesystem::create_directories(folder_);
  std::ifstream tree(folder_ / "tree");
  std::string kind, path;
  tree >> version_;
  for (Ino ino = 0; tree >> kind >> ino >> path;) {
    base_[path] = {ino, kind == "d"};
    if (kind == "d") continue;
    std::ifstream content(folder_ / std::to_string(ino), std::ios::binary);
    files_[ino] = FileModel({std::istreambuf_iterator<char>(content), {}});
  }
  tree_ = base_;
  std::ifstream log(folder_ / "log");
  for (std::string line; std::getline(log, line);) replay(line);
  log_ = ::open((folder_ / "log").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log_ < 0) broken(folder_ / "log");
}

void Model::log(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(log_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    broken(folder_ / "log");
  replay(line);
}

// ---- the log: "KIND OUTCOME ..."; only replay() acts on it -------------

void Model::change(const NameChange& change, bool done) {
  std::ostringstream line;
  line << change.kind << " " << done << " " << change.ino << " " << version_ << " " << change.path
       << " " << change.target;
  log(line.str());
}

void Model::write(Ino ino, std::uint64_t offset, std::size_t length, std::uint64_t version,
                  bool done) {
  std::ostringstream line;
  line << "w " << done << " " << ino << " " << offset << " " << length << " " << version;
  log(line.str());
}

void Model::truncate(Ino ino, std::uint64_t size, bool done) {
  std::ostringstream line;
  line << "t " << done << " " << ino << " " << size;
  log(line.str());
}

void Model::synced(Ino ino) { log("f 1 " + std::to_string(ino)); }
void Model::names_synced() { log("F 1"); }
void Model::settled(Ino ino, const std::string& former) {
  log("s 1 " + std::to_string(ino) + " " + former);
}

void Model::replay(const std::string& line) {
  std::istringstream words(line);
  char kind = 0;
  bool done = false;
  words >> kind >> done;
  switch (kind) {
    case 'c':
    case 'm':
    case 'u':
    case 'n': {
      NameChange change{.kind = kind, .path = {}, .target = {}, .ino = 0};
      std::uint64_t version = 0;  // names are made from it, and none may come again
      words >> change.ino >> version >> change.path >> change.target;
      version_ = std::max(version_, version);
      changes_.push_back(change);
      if (done)
        change_tree(tree_, change);
      else
        unsure_ = true;
      if (kind == 'c' && change.ino != 0)
        files_[change.ino] = FileModel();  // numbers may come again
      break;
    }
    case 'w': {
      Ino ino = 0;
      std::uint64_t offset = 0, length = 0, version = 0;
      words >> ino >> offset >> length >> version;
      version_ = std::max(version_, version);
      files_[ino].write(offset, pattern(worker_, version, offset, length), done);
      break;
    }
    case 't': {
      Ino ino = 0;
      std::uint64_t size = 0;
      words >> ino >> size;
      files_[ino].truncate(size, done);
      break;
    }
    case 'f': {
      Ino ino = 0;
      words >> ino;
      files_[ino].synced();
      [[fallthrough]];  // a commit holds all names
    }
    case 'F':
      base_ = tree_;
      changes_.clear();
      for (auto& [ino, file] : files_)
        if (file.is_settled()) file.synced();
      break;
    case 's': {
      Ino ino = 0;
      std::string former;
      words >> ino >> former;
      files_[ino].settled(former);
      break;
    }
    case 'y':  // whether the last change of names happened after all
      unsure_ = false;
      if (done)
        change_tree(tree_, changes_.back());
      else
        changes_.pop_back();
      break;
    case 'a': {
      Ino ino = 0;
      words >> ino;
      std::ifstream content(folder_ / ("adopted." + std::to_string(ino)), std::ios::binary);
      files_[ino].adopt({std::istreambuf_iterator<char>(content), {}});
      break;
    }
  }
}

// ---- checks

// The file's part of the log, for the person who investigates.
std::string Model::history_of(Ino ino) const {
  std::ifstream log(folder_ / "log");
  std::string history;
  std::size_t number = 0;
  for (std::string line; std::getline(log, line); ++number) {
    std::istringstream words(line);
    std::string kind, done, which;
    words >> kind >> done >> which;
    if (which == std::to_string(ino) || kind == "F")
      history += "\n  " + std::to_string(number) + ": " + line;
  }
  return history + "\n  of " + std::to_string(number) + " lines";
}

Complaint Model::look(const Tree& seen) {
  if (!unsure_)
    return same(seen, tree_) ? Complaint() : "the names differ:" + difference(seen, tree_);
  Tree after = tree_;
  change_tree(after, changes_.back());
  if (same(seen, after)) {
    if (changes_.back().kind == 'c' || changes_.back().kind == 'm') {
      NameChange known = changes_.back();
      known.ino = seen.at(known.path).ino;
      log("y 0");
      change(known, true);
    } else {
      log("y 1");
    }
    return {};
  }
  if (!same(seen, tree_))
    return "the names are neither as before nor as after \"" + describe(changes_.back()) +
           "\":" + difference(seen, tree_);
  log("y 0");
  return {};
}

Complaint Model::adopt(Ino ino, const std::string& content) {
  FileModel copy = files_[ino];
  if (auto complaint = copy.adopt(content); !complaint.empty()) return complaint + history_of(ino);
  if (files_[ino].certain()) return {};
  const auto path = folder_ / ("adopted." + std::to_string(ino));
  std::ofstream out(path, std::ios::binary);
  if (!out.write(content.data(), static_cast<std::streamsize>(content.size())).flush())
    broken(path);
  out.close();
  log("a 1 " + std::to_string(ino));
  return {};
}

Complaint Model::verify(const Tree& seen, const std::map<Ino, std::string>& contents) {
  Tree state = base_;
  bool found = same(seen, state);
  for (std::size_t i = 0; i < changes_.size() && !found; ++i) {
    change_tree(state, changes_[i]);
    found = same(seen, state);
  }
  if (!found) {
    std::string complaint = "the names do not match the state after any of the " +
                            std::to_string(changes_.size()) + " changes since they were synced;";
    complaint += " compared with those synced:" + difference(seen, base_);
    complaint += "\n compared with the last:" + difference(seen, tree_);
    for (const NameChange& change : changes_) complaint += "\n  then: " + describe(change);
    return complaint;
  }
  for (const auto& [path, name] : seen) {
    if (name.directory) continue;
    const auto file = files_.find(name.ino);
    const FileModel& model = file == files_.end() ? FileModel() : file->second;
    if (auto complaint = model.check_after_crash(path, contents.at(name.ino)); !complaint.empty())
      return path + " (" + std::to_string(name.ino) + "): " + complaint + history_of(name.ino);
  }
  begin_anew(seen, contents);
  return {};
}

Complaint Model::compare(const Tree& seen, const std::map<Ino, std::string>& contents) {
  if (auto complaint = look(seen); !complaint.empty()) return complaint;
  for (const auto& [path, name] : seen) {
    if (name.directory) continue;
    if (auto complaint = adopt(name.ino, contents.at(name.ino)); !complaint.empty())
      return path + " (" + std::to_string(name.ino) + "): " + complaint;
  }
  return {};
}

void Model::begin_anew(const Tree& seen, const std::map<Ino, std::string>& contents) {
  ::close(log_);
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  std::ofstream tree(folder_ / "tree");
  tree << version_ << "\n";
  for (const auto& [path, name] : seen)
    tree << (name.directory ? "d " : "f ") << name.ino << " " << path << "\n";
  for (const auto& [ino, content] : contents) {
    std::ofstream out(folder_ / std::to_string(ino), std::ios::binary);
    if (!out.write(content.data(), static_cast<std::streamsize>(content.size())).flush())
      broken(folder_);
  }
  if (!tree.flush()) broken(folder_);
  log_ = ::open((folder_ / "log").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log_ < 0) broken(folder_);
  base_ = tree_ = seen;
  changes_.clear();
  unsure_ = false;
  files_.clear();
  for (const auto& [ino, content] : contents) files_[ino] = FileModel(content);
}

}  // namespace s3oram::workload
