#include "to_stream.h"

#include <capstan/base/clock.h>
#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "streams/token_file.h"

namespace tokenize {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

/// A file under another name until it is whole, which is this process's alone and goes with the object.
class Unfinished {
 public:
  explicit Unfinished(fs::path whole) : whole_(std::move(whole)), path_(whole_.string() + ".unfinished") {
    if (capstan::is_there(whole_))
      throw Error("it is there already", "remove it, or name another with --out", whole_.string());
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) throw FileError(path_, "write", errno);
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(fd_);
    throw Error("another process writes it", "wait for that one, or name another file with --out", path_.string());
  }
  ~Unfinished() {
    std::error_code ignored;
    fs::remove(path_, ignored);
    ::close(fd_);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const fs::path& path() const { return path_; }
  /// All of it is on the disk.
  void sync() const {
    if (::fsync(fd_) != 0) throw FileError(path_, "write", errno);
  }
  void rename() const {
    if (::rename(path_.c_str(), whole_.c_str()) != 0) throw FileError(whole_, "write", errno);
  }

 private:
  fs::path whole_;
  fs::path path_;
  int fd_ = -1;
};

/// What a person reads meanwhile: twice a second on a terminal, else a line a minute.
class Told {
 public:
  explicit Told(std::int64_t total) : total_(total) {}
  /// `before`: text bytes of the files that are done.
  void tell(const streams::TokenizeProgress& progress, std::int64_t before) {
    const auto seconds = seconds_since(began_);
    if (seconds - last_ < (is_terminal_ ? 0.5 : 60.0)) return;
    last_ = seconds;
    const auto done = static_cast<double>(before + progress.text_bytes);
    const auto rest = seconds * (static_cast<double>(total_) / std::max(1.0, done) - 1);
    const auto before_it = said_.size();
    said_ = cat(static_cast<int>(100 * done / std::max(1.0, static_cast<double>(total_))), " %, ",
                thousands(progress.documents), " documents, ", thousands(progress.tokens), " tokens, ",
                bytes_text(done / seconds), " of text/s, ", duration_text(rest), " left");
    said_.resize(std::max(said_.size(), before_it), ' ');  // a shorter line leaves nothing of the one before it
    terminal::print_progress(said_, false);
  }
  double seconds() const { return seconds_since(began_); }
  /// Ends the line on a terminal.
  void end() const {
    if (is_terminal_ && !said_.empty()) terminal::print_progress(said_, true);
  }

 private:
  std::int64_t total_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  double last_ = 0;
  std::string said_;
};

}  // namespace

void to_stream(const tokenizer::Tokenizer& tokenizer, const StreamJob& job) {
  const auto pair = streams::pair_of(job.out);
  const Unfinished tokens(pair.tokens), index(pair.index);
  std::vector<std::unique_ptr<streams::TextReader>> texts;
  std::int64_t total = 0;
  for (const auto& file : job.files) {
    auto input = job.input;
    input.path = file;
    texts.push_back(streams::open_texts(input));
    total += texts.back()->total();
  }
  streams::StreamWriter writer(tokens.path(), streams::type_for(tokenizer.vocab_size()));
  Told told(total);
  std::int64_t before = 0;
  for (const auto& one : texts) {
    streams::tokenize_all(*one, tokenizer, job.rules, writer,
                          [&](const streams::TokenizeProgress& progress) { told.tell(progress, before); });
    before += one->total();
  }
  if (writer.documents() == 0) throw Error("there is no text", "name files with texts", join(job.files));
  writer.finish(index.path());
  tokens.sync();
  index.sync();
  tokens.rename();
  index.rename();
  told.end();
  const auto bytes = writer.tokens() * streams::bytes_of(writer.type());
  terminal::print(cat(pair.tokens, ", ", pair.index, ": ", thousands(writer.documents()),
                      plural(writer.documents(), " document, ", " documents, "), thousands(writer.tokens()),
                      " tokens of ", streams::name_of(writer.type()), " (", bytes_text(static_cast<double>(bytes)),
                      ") in ", number_text(std::round(10 * told.seconds()) / 10), " s, ",
                      bytes_text(static_cast<double>(total) / told.seconds()), " of text/s\n"));
}

}  // namespace tokenize
