// Keeps the files of dropfs, and decides what a power cut leaves of them.
#include "tests/system/drop_store.h"

#include <algorithm>
#include <functional>

namespace s3oram {
namespace {

// The page of data that was allocated and never written.
const std::shared_ptr<DropStore::Page>& zero_page() {
  static const auto page = std::make_shared<DropStore::Page>(DropStore::Page{});
  return page;
}

}  // namespace

DropStore::DropStore() {
  struct stat root {};
  root.st_mode = S_IFDIR | 0755;
  nodes_[kRoot] = std::make_unique<Node>();
  nodes_[kRoot]->attributes = root;
}

DropStore::Node* DropStore::find(Ino ino) {
  const auto found = nodes_.find(ino);
  return found == nodes_.end() ? nullptr : found->second.get();
}

DropStore::Ino DropStore::make(const struct stat& attributes) {
  const Ino ino = next_++;
  auto node = std::make_unique<Node>();
  node->attributes = attributes;
  nodes_.emplace(ino, std::move(node));
  return ino;
}

// ---- names -------------------------------------------------------------------------------------

void DropStore::change_names(std::vector<Edit> edits) {
  for (const Edit& edit : edits) {
    Names& names = find(edit.directory)->names;
    if (edit.ino == 0)
      names.erase(edit.name);
    else
      names[edit.name] = edit.ino;
  }
  unsafe_.push_back(std::move(edits));
}

void DropStore::apply(const Edit& edit) {
  Node* directory = find(edit.directory);
  if (!directory) return;  // it has been removed for good
  if (edit.ino == 0)
    directory->safe_names.erase(edit.name);
  else
    directory->safe_names[edit.name] = edit.ino;
}

void DropStore::sync_names(Ino directory) {
  for (auto& edits : unsafe_)
    std::erase_if(edits, [&](const Edit& edit) {
      if (edit.directory != directory) return false;
      apply(edit);
      return true;
    });
  std::erase_if(unsafe_, [](const auto& edits) { return edits.empty(); });
  drop_unused();
}

void DropStore::drop_unused() {
  std::set<Ino> used{kRoot};
  for (const auto& [ino, node] : nodes_) {
    if (node->lookups > 0) used.insert(ino);
    for (const Names* names : {&node->names, &node->safe_names})
      for (const auto& [name, child] : *names) used.insert(child);
  }
  for (const auto& edits : unsafe_)
    for (const Edit& edit : edits) used.insert({edit.ino, edit.directory});
  std::erase_if(nodes_, [&](const auto& entry) {
    if (used.contains(entry.first)) return false;
    used_ -= entry.second->now.pages.size();
    return true;
  });
}

// ---- data --------------------------------------------------------------------------------------

std::string DropStore::read(const Node& node, std::uint64_t offset, std::size_t size) const {
  if (offset >= node.now.size) return {};
  std::string out(std::min<std::uint64_t>(size, node.now.size - offset), '\0');
  for (std::size_t at = 0; at < out.size();) {
    const std::uint64_t number = (offset + at) / kPage;
    const std::size_t from = (offset + at) % kPage;
    const std::size_t length = std::min(kPage - from, out.size() - at);
    if (const auto page = node.now.pages.find(number); page != node.now.pages.end())
      std::copy_n(page->second->begin() + from, length, out.begin() + at);
    at += length;
  }
  return out;
}

// Returns the page, unshared.
DropStore::Page& DropStore::page_to_change(Node& node, std::uint64_t number) {
  node.changed.insert(number);
  auto& page = node.now.pages[number];
  if (!page) {
    page = std::make_shared<Page>(Page{});
    ++used_;
  } else if (page.use_count() > 1) {
    page = std::make_shared<Page>(*page);
  }
  return *page;
}

void DropStore::erase_page(Node& node, std::uint64_t number) {
  node.changed.insert(number);
  used_ -= node.now.pages.erase(number);
}

bool DropStore::has_room(const Node& node, std::uint64_t first, std::uint64_t last) const {
  std::uint64_t missing = 0;
  for (std::uint64_t number = first; number <= last; ++number)
    missing += !node.now.pages.contains(number);
  return missing == 0 || used_ + missing <= most_pages;
}

bool DropStore::write(Node& node, std::uint64_t offset, std::string_view data) {
  if (data.empty()) return true;
  if (!has_room(node, offset / kPage, (offset + data.size() - 1) / kPage)) return false;
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t from = (offset + at) % kPage;
    const std::size_t length = std::min(kPage - from, data.size() - at);
    Page& page = page_to_change(node, (offset + at) / kPage);
    std::copy_n(data.begin() + at, length, page.begin() + from);
    at += length;
  }
  node.now.size = std::max(node.now.size, offset + data.size());
  return true;
}

bool DropStore::allocate(Node& node, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t first = offset / kPage, last = (offset + length - 1) / kPage;
  if (!has_room(node, first, last)) return false;
  for (std::uint64_t number = first; number <= last; ++number)
    if (node.now.pages.try_emplace(number, zero_page()).second) {
      node.changed.insert(number);
      ++used_;
    }
  return true;
}

void DropStore::zero(Node& node, std::uint64_t offset, std::uint64_t length) {
  for (std::uint64_t end = offset + length; offset < end;) {
    const std::uint64_t number = offset / kPage;
    const std::size_t from = offset % kPage;
    const auto size = std::min<std::uint64_t>(kPage - from, end - offset);
    if (size == kPage)
      erase_page(node, number);
    else if (node.now.pages.contains(number))
      std::fill_n(page_to_change(node, number).begin() + from, size, '\0');
    offset += size;
  }
}

void DropStore::resize(Node& node, std::uint64_t size) {
  if (size < node.now.size) {
    const std::uint64_t rest = (kPage - size % kPage) % kPage;
    zero(node, size, rest);
    auto page = node.now.pages.lower_bound((size + rest) / kPage);
    while (page != node.now.pages.end()) erase_page(node, (page++)->first);
  }
  node.now.size = size;
}

void DropStore::sync(Node& node) {
  for (const std::uint64_t number : node.changed) {
    const auto page = node.now.pages.find(number);
    if (page == node.now.pages.end())
      node.safe.pages.erase(number);
    else
      node.safe.pages[number] = page->second;
  }
  node.changed.clear();
  node.safe.size = node.now.size;
}

// ---- power -------------------------------------------------------------------------------------

DropStore::Content DropStore::surviving(const Node& node, Survival survival,
                                        std::mt19937_64& random) const {
  if (survival == Survival::nothing) return node.safe;
  if (survival == Survival::everything) return node.now;
  Content left = node.safe;
  if (random() % 2 == 0) left.size = node.now.size;
  for (const std::uint64_t number : node.changed) {
    const auto fate = random() % 3;
    if (fate == 0) continue;  // dropped
    const auto fresh = node.now.pages.find(number);
    auto page = std::make_shared<Page>(Page{});
    if (const auto old = left.pages.find(number); old != left.pages.end()) *page = *old->second;
    for (std::size_t at = 0; at < kPage; at += kSector) {
      if (fate == 2 && random() % 2 == 0) continue;  // torn
      if (fresh == node.now.pages.end())
        std::fill_n(page->begin() + at, kSector, '\0');
      else
        std::copy_n(fresh->second->begin() + at, kSector, page->begin() + at);
    }
    left.pages[number] = std::move(page);
  }
  // Nothing must appear after the end when the file grows again.
  left.pages.erase(left.pages.lower_bound((left.size + kPage - 1) / kPage), left.pages.end());
  if (const auto last = left.pages.find(left.size / kPage); last != left.pages.end()) {
    last->second = std::make_shared<Page>(*last->second);
    std::fill(last->second->begin() + left.size % kPage, last->second->end(), '\0');
  }
  return left;
}

void DropStore::cut(Survival survival, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::size_t kept = survival == Survival::nothing ? 0 : unsafe_.size();
  if (survival == Survival::random) kept = random() % (kept + 1);
  for (std::size_t at = 0; at < kept; ++at)
    for (const Edit& edit : unsafe_[at]) apply(edit);
  unsafe_.clear();

  const auto before = std::move(nodes_);
  nodes_.clear();
  used_ = 0;
  std::map<Ino, Ino> renumbered{{kRoot, kRoot}};
  const std::function<void(Ino)> bring = [&](Ino old) {
    const Node& from = *before.at(old);
    auto node = std::make_unique<Node>();
    node->attributes = from.attributes;
    node->target = from.target;
    node->now = node->safe = surviving(from, survival, random);
    used_ += node->now.pages.size();
    for (const auto& [name, child] : from.safe_names) {
      const auto [number, is_new] = renumbered.try_emplace(child, next_);
      next_ += is_new;
      node->names[name] = number->second;
      if (is_new) bring(child);
    }
    node->safe_names = node->names;
    nodes_[renumbered.at(old)] = std::move(node);
  };
  bring(kRoot);
}

}  // namespace s3oram
