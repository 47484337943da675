#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "token_file.h"

namespace streams {

/// How a file's tokens are read.
struct StreamRules {
  std::int64_t vocab_size = 0;       ///< all ids are below it
  std::int64_t appended = -1;        ///< the id that follows each document of an index; -1: none
  std::int64_t ends_documents = -1;  ///< the id after which a document begins, where there is no index; -1: none does
};

/// All documents of a file as one text, with what is appended to them. Thread-safe.
class TokenStream {
 public:
  TokenStream(TokenFile file, const StreamRules& rules) : file_(std::move(file)), rules_(rules) {}
  std::int64_t size() const;
  const std::string& path() const { return file_.path(); }
  /// Appends tokens [begin, begin + count), and to `begins` where documents begin among all that `ids` holds, but for
  /// begin itself. Throws Error, with the byte, for an id that the vocabulary does not have.
  void read(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids,
            std::vector<std::int64_t>& begins) const;
  /// Calls with the begin and the length of each document that has tokens, in order.
  void each_document(const std::function<void(std::int64_t, std::int64_t)>& call) const;

 private:
  std::int64_t begin_of(std::int64_t document) const;
  std::int64_t document_at(std::int64_t token) const;
  void read_indexed(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids,
                    std::vector<std::int64_t>& begins) const;
  void read_checked(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids) const;

  TokenFile file_;
  StreamRules rules_;
};

}  // namespace streams
