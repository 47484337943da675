#include "best_fit.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

namespace streams {

using namespace capstan;

namespace {

using Row = std::vector<Piece>;

// The rows of a window's pieces.
std::vector<Row> rows_of(std::vector<Piece> pieces, std::int64_t most) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.length > b.length; });
  std::vector<Row> rows;
  std::map<std::int64_t, std::vector<std::size_t>> with_room;  // rows by how many more tokens they take
  for (const auto& piece : pieces) {
    const auto found = with_room.lower_bound(piece.length);
    std::size_t row = rows.size();
    auto room = most;
    if (found == with_room.end()) {
      rows.emplace_back();
    } else {
      room = found->first;
      row = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) with_room.erase(found);
    }
    rows[row].push_back(piece);
    if (room > piece.length) with_room[room - piece.length].push_back(row);
  }
  const auto by_begin = [](const Piece& a, const Piece& b) { return a.begin < b.begin; };
  for (auto& row : rows) std::sort(row.begin(), row.end(), by_begin);
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return by_begin(a.front(), b.front()); });
  return rows;
}

// The end of a file of rows, after the pieces and the number of the first piece of each row and of none.
struct End {
  std::int64_t pieces = 0;
  std::int64_t rows = 0;
  std::uint64_t magic = 0x3153574F52504143;  // "CAPROWS1"
};

class Writer {
 public:
  explicit Writer(const std::filesystem::path& path) : path_(path), out_(path, std::ios::binary | std::ios::trunc) {}
  template <class Value>
  void put(const Value& value) {
    out_.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void finish() {
    out_.close();
    if (!out_) throw FileError(path_, "write", errno);
  }

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace

void best_fit(const TokenStream& stream, std::int64_t most, std::int64_t window, const TakeRow& take) {
  std::vector<Piece> pieces;
  const auto take_all = [&] {
    for (const auto& row : rows_of(std::move(pieces), most)) take(row);
    pieces.clear();
  };
  stream.each_document([&](std::int64_t begin, std::int64_t length) {
    for (; length > most; begin += most - 1, length -= most - 1) take({{begin, most}});
    pieces.push_back({begin, length});
    if (static_cast<std::int64_t>(pieces.size()) == window) take_all();
  });
  take_all();
}

void RowFile::write(const std::filesystem::path& file, const std::function<void(const TakeRow&)>& rows) {
  Writer out(file);
  std::vector<std::int64_t> firsts{0};
  rows([&](const std::vector<Piece>& row) {
    for (const auto& piece : row) out.put(piece);
    firsts.push_back(firsts.back() + static_cast<std::int64_t>(row.size()));
  });
  for (const auto first : firsts) out.put(first);
  End end;
  end.pieces = firsts.back();
  end.rows = static_cast<std::int64_t>(firsts.size()) - 1;
  out.put(end);
  out.finish();
}

RowFile::RowFile(const std::filesystem::path& file) : file_(file) {
  End end;
  const auto magic = end.magic;
  const auto size = file_.size();
  if (size >= sizeof end) std::memcpy(&end, file_.data() + size - sizeof end, sizeof end);
  pieces_ = end.pieces;
  rows_ = end.rows;
  const auto expected =
      sizeof(Piece) * static_cast<std::size_t>(pieces_) + 8 * static_cast<std::size_t>(rows_ + 1) + sizeof end;
  if (size < sizeof end || end.magic != magic || size != expected)
    throw Error("it is not what was written", "delete it: it is made again", file.string());
}

std::int64_t RowFile::number(std::int64_t at) const {
  std::int64_t value = 0;
  std::memcpy(&value, file_.data() + 8 * static_cast<std::size_t>(at), sizeof value);
  return value;
}

std::vector<Piece> RowFile::row(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < rows_);
  Row row;
  const auto firsts = 2 * pieces_;
  for (auto at = number(firsts + index); at < number(firsts + index + 1); ++at)
    row.push_back({number(2 * at), number(2 * at + 1)});
  return row;
}

}  // namespace streams
