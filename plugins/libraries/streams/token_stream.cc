#include "token_stream.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace streams {

using namespace capstan;

std::int64_t TokenStream::size() const {
  return file_.index() != nullptr ? begin_of(file_.index()->documents()) : file_.size();
}

std::int64_t TokenStream::begin_of(std::int64_t document) const {
  return file_.index()->begin(document) + (rules_.appended >= 0 ? document : 0);
}

// The last document that begins at the token or before: of those that begin there the one with tokens.
std::int64_t TokenStream::document_at(std::int64_t token) const {
  std::int64_t low = 0;
  for (auto high = file_.index()->documents(); high - low > 1;) {
    const auto middle = low + (high - low) / 2;
    (begin_of(middle) <= token ? low : high) = middle;
  }
  return low;
}

void TokenStream::read_checked(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids) const {
  const auto first = static_cast<std::ptrdiff_t>(ids.size());
  file_.read(begin, count, ids);
  const auto wrong =
      std::find_if(ids.begin() + first, ids.end(), [&](std::int64_t id) { return id < 0 || id >= rules_.vocab_size; });
  if (wrong == ids.end()) return;
  const auto token = begin + (wrong - ids.begin()) - first;
  throw Error(cat("token ", token, " at byte ", file_.byte_of(token), " is ", *wrong, ", the model's vocab_size is ",
                  rules_.vocab_size),
              "name tokens that were made for this model, correct data.dtype, or take a model with more ids", path());
}

void TokenStream::read_indexed(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids,
                               std::vector<std::int64_t>& begins) const {
  const auto end = begin + count;
  auto document = document_at(begin);
  for (auto at = begin; at < end; ++document) {
    const auto first = begin_of(document), next = begin_of(document + 1);
    const auto stop = std::min(end, next);
    if (stop <= at) continue;
    if (at == first && at > begin) begins.push_back(static_cast<std::int64_t>(ids.size()));
    const auto last = next - (rules_.appended >= 0 ? 1 : 0);  // what follows it is appended
    if (at < last) read_checked(file_.index()->begin(document) + at - first, std::min(stop, last) - at, ids);
    if (stop > last) ids.push_back(rules_.appended);
    at = stop;
  }
}

void TokenStream::read(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids,
                       std::vector<std::int64_t>& begins) const {
  CAPSTAN_ASSERT(begin >= 0 && count >= 0 && begin + count <= size());
  if (file_.index() != nullptr) return read_indexed(begin, count, ids, begins);
  const auto first = ids.size();
  read_checked(begin, count, ids);
  if (rules_.ends_documents < 0) return;
  for (auto at = first; at + 1 < ids.size(); ++at) {
    if (ids[at] == rules_.ends_documents) begins.push_back(static_cast<std::int64_t>(at) + 1);
  }
}

void TokenStream::each_document(const std::function<void(std::int64_t, std::int64_t)>& call) const {
  if (file_.index() != nullptr) {
    std::int64_t begin = 0;
    for (std::int64_t document = 0; document < file_.index()->documents(); ++document) {
      const auto end = begin_of(document + 1);
      if (end > begin) call(begin, end - begin);
      begin = end;
    }
    return;
  }
  constexpr std::int64_t at_once = 1 << 16;
  std::int64_t begin = 0;
  std::vector<std::int64_t> ids;
  for (std::int64_t block = 0; rules_.ends_documents >= 0 && block < size(); block += at_once) {
    ids.clear();
    read_checked(block, std::min(at_once, size() - block), ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != rules_.ends_documents) continue;
      const auto end = block + static_cast<std::int64_t>(i) + 1;
      call(begin, end - begin);
      begin = end;
    }
  }
  if (begin < size()) call(begin, size() - begin);
}

}  // namespace streams
