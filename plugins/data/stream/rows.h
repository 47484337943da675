#pragma once
#include <capstan/data/source.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "streams/best_fit.h"
#include "streams/token_stream.h"

namespace stream {

/// How a stream becomes rows.
struct RowRules {
  std::int64_t most = 0;                                 ///< tokens of a row, at least 2
  std::shared_ptr<const streams::RowFile> planned = {};  ///< null: rows cut the stream
  bool apart = true;                                     ///< documents of a row see only themselves
  std::string content = {};                              ///< DataSource::content()
};

/// Rows as samples. Of two that cut the stream the second begins with the last token of the first, which is predicted
/// there and read here.
class RowSource final : public capstan::data::DataSource {
 public:
  RowSource(std::shared_ptr<const streams::TokenStream> stream, RowRules rules)
      : stream_(std::move(stream)), rules_(std::move(rules)) {}
  /// All rows, before use() chose some.
  std::int64_t size() const override { return used_ >= 0 ? used_ : held(); }
  std::int64_t held() const;
  /// Only the first ones.
  void use(std::int64_t rows) { used_ = rows; }
  capstan::data::Sample get(std::int64_t index) const override;
  std::string content() const override { return rules_.content; }

 private:
  std::vector<streams::Piece> pieces(std::int64_t index) const;

  std::shared_ptr<const streams::TokenStream> stream_;
  RowRules rules_;
  std::int64_t used_ = -1;
};

}  // namespace stream
