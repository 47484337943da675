// Questions by a model's chat template: generate and chat, with a small model of random values that reads bytes.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace chat_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace {

constexpr const char* chatml =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if loud %}!{% endif %}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

// Draws depend on the position, so that an answer says how long its prompt is; they are of a few letters.
const std::vector<std::string> drawn{"train.temperature=1", "train.top_p=0.2", "run.seed=2"};
const std::vector<std::string> short_answers{"--set", "train.max_new_tokens=12", drawn[0], drawn[1], drawn[2]};

const std::string letters = "the quick brown fox jumps over the lazy dog and packs five dozen jugs";

// runs/small, which learns to write the letters of `line`. `more`: further lines of [data].
void make_run(const Workspace& work, const std::string& line, const std::string& positions, const std::string& more) {
  const auto data = work.write("train.jsonl", line + "\n" + line + "\n");
  const auto file = work.write("a.toml", small_config({{"plugin = \"squad\"", "plugin = \"jsonl\"\n" + more},
                                                       {"train =", cat("train = \"", data, "\"")},
                                                       {"eval =", cat("eval = \"", data, "\"")},
                                                       {"train_samples", "train_samples = 2"},
                                                       {"eval_samples", "eval_samples = 2"},
                                                       {"max_length", "max_length = 120"},
                                                       {"max_steps", "max_steps = 40\ngenerate_samples = 0"},
                                                       {"global_batch", "global_batch = 2"},
                                                       {"micro_batch", "micro_batch = 2"},
                                                       {"vocab_size", "vocab_size = 258"},
                                                       {"seq_length", "seq_length = " + positions}}));
  const auto ran = work.run({"run", file, "train.eval_every=1000"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
}

// runs/small/model, which has no template yet: a copy of one that is trained once.
void make_model(const Workspace& work) {
  static const Workspace trained;
  const auto runs = trained.folder() / "runs";
  if (!std::filesystem::exists(runs))
    make_run(trained, R"({"text": ")" + letters + letters.substr(0, 40) + R"("})", "130", "");
  std::filesystem::copy(runs, work.folder() / "runs", std::filesystem::copy_options::recursive);
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The same with lines on standard input.
Outcome run_with(const Workspace& work, const std::string& input, const std::vector<std::string>& words) {
  work.write("input", input);
  auto command =
      cat("cd '", work.folder().string(), "' && OMP_NUM_THREADS=1 '", (binary_dir() / "bin" / "capstan").string(), "'");
  for (const auto& word : words) command += " '" + word + "'";
  const auto status = std::system((command + " < input > chat-out 2> chat-err").c_str());
  return {WEXITSTATUS(status), false, capstan::read_file(work.folder() / "chat-out"),
          capstan::read_file(work.folder() / "chat-err")};
}

// `capstan` on a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(const Workspace& work, std::vector<std::string> words) {
    words.insert(words.begin(), (binary_dir() / "bin" / "capstan").string());
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(master_ >= 0);
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    const std::string name = ::ptsname(master_);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    ::setsid();
    const int terminal = ::open(name.c_str(), O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(terminal, fd);
    if (::chdir(work.folder().c_str()) != 0) ::_exit(126);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ~OnTerminal() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(master_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& text) const { REQUIRE(::write(master_, text.data(), text.size()) == std::ssize(text)); }
  // Reads until `text` was shown, and at least `more` bytes after it.
  bool shows(const std::string& text, std::size_t more = 0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (true) {
      const auto at = shown_.find(text, seen_);
      if (at != shown_.npos && shown_.size() >= at + text.size() + more) {
        seen_ = at + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > deadline) return false;
      pollfd wanted{master_, POLLIN, 0};
      std::array<char, 4096> block{};
      if (::poll(&wanted, 1, 100) <= 0) continue;
      const auto count = ::read(master_, block.data(), block.size());
      if (count <= 0) return shown_.find(text, seen_) != shown_.npos;  // it has ended
      shown_.append(block.data(), static_cast<std::size_t>(count));
    }
  }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  int master_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
  std::size_t seen_ = 0;
};

}  // namespace

TEST_CASE("a question is answered as the text that the template writes for it") {
  const Workspace work;
  make_model(work);
  const std::string model = "runs/small/model";
  const auto plain = work.run(with({"generate", model, "hi"}, short_answers));
  REQUIRE(plain.code == 0);
  CHECK_THAT(plain.err, Contains("the model has no chat template: it continues the text\n"));
  work.write(model + "/chat_template.jinja", chatml);
  const auto by_hand = [&](const std::string& text) {
    const auto ran = work.run(with({"generate", model, "--plain", text}, short_answers));
    INFO(ran.all());
    REQUIRE(ran.code == 0);
    return ran.out;
  };
  CHECK(by_hand("hi") == plain.out);
  const auto asked = work.run(with({"generate", model, "hi"}, short_answers));
  INFO(asked.all());
  REQUIRE(asked.code == 0);
  CHECK_THAT(asked.err, Contains("asked by the chat template; --plain continues the text as it stands\n"));
  CHECK(asked.out == by_hand("<user>hi</s><assistant>"));
  CHECK(asked.out != plain.out);
  const auto loud =
      work.run(with({"generate", model, "hi", "--system", "s", "--template-variable", "loud=true"}, short_answers));
  CHECK(loud.out == by_hand("<system>s!</s><user>hi!</s><assistant>"));
  const auto two = work.run(with({"generate", model, "hi", "-n", "2"}, short_answers));
  CHECK(two.out == asked.out);
  // A run that was trained without the template is not asked by it.
  const auto run = work.run(with({"generate", "runs/small", "hi"}, short_answers));
  CHECK(run.out == plain.out);
  const auto of_run = work.run(with({"generate", "runs/small", "--chat", "hi"}, short_answers));
  CHECK(of_run.out == asked.out);
  CHECK(work.run({"generate", model, "--plain", "--system", "s", "a"}).code == static_cast<int>(ExitCode::usage));
}

TEST_CASE("an answer ends where the template ends the assistant's turn") {
  const Workspace work;
  make_model(work);
  const std::string model = "runs/small/model";
  const auto whole = work.run(with({"generate", model, "<user>hi"}, short_answers)).out;
  const auto end =
      whole.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdfgjklmnopqtvwxyz0123456789", 1);  // not in the prompt
  INFO(whole);
  REQUIRE(end != whole.npos);
  const std::string mark(1, whole[end]);
  work.write(model + "/chat_template.jinja",
             "{% for m in messages %}{% if m.role == 'user' %}<user>{% endif %}{{ "
             "m.content }}{% if m.role == 'assistant' %}" +
                 mark + "{% endif %}{% endfor %}");
  const auto asked = work.run(with({"generate", model, "hi"}, short_answers));
  CHECK(asked.out == whole.substr(0, whole.find(mark)) + "\n");
}

TEST_CASE("a run is asked by the template that wrote its conversations, and evaluated by it") {
  const Workspace work;
  const auto written = work.write("t.jinja", chatml);
  make_run(
      work,
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ")" + letters + R"("}]})",
      "130",
      cat("chat_template_file = \"", written, "\"\ntemplate_variables = [\"loud = true\"]\nderived = \"",
          (work.folder() / "derived").string(), "\""));
  const auto asked = work.run(with({"generate", "runs/small", "hi"}, short_answers));
  INFO(asked.all());
  REQUIRE(asked.code == 0);
  CHECK_THAT(asked.err, Contains("asked by the chat template"));
  const auto by_hand = work.run(with({"generate", "runs/small", "--plain", "<user>hi!</s><assistant>"}, short_answers));
  CHECK(by_hand.out == asked.out);
  const auto chat = run_with(work, "hi\n", with({"chat", "runs/small"}, short_answers));
  CHECK(chat.out == asked.out);
  const auto evaluated = work.run(with({"eval", "runs/small", "train.max_new_tokens=12"}, drawn));
  INFO(evaluated.all());
  CHECK(evaluated.code == 0);
  CHECK_THAT(evaluated.out, Contains("exact_match 0 over 2 answers"));
  const auto folder = evaluated.out.substr(evaluated.out.find("results: ") + 9);
  const auto answers = read_json(work.folder() / capstan::trim(folder) / "predictions-eval.json");
  CHECK(capstan::trim(answers.items().front().value.text()) == capstan::trim(asked.out));
}

TEST_CASE("JSON lines say what a line is: a prompt to continue, or messages to answer") {
  const Workspace work;
  make_model(work);
  const std::string model = "runs/small/model";
  work.write(model + "/chat_template.jinja", chatml);
  const auto by_hand = [&](const std::string& text) {
    const auto out = work.run(with({"generate", model, "--plain", text}, short_answers)).out;
    return out.substr(0, out.size() - 1);
  };
  const std::string messages = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
                               R"({"role": "user", "content": "c"}])";
  const auto ran = run_with(work,
                            R"({"prompt": "x", "id": 1})"
                            "\n{\"id\": 2, \"messages\": " +
                                messages + ", \"chat_template_kwargs\": {\"loud\": true}}\n",
                            with({"generate", model, "--json"}, short_answers));
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto lines = capstan::split(capstan::trim(ran.out), '\n');
  REQUIRE(lines.size() == 2);
  CHECK(Json::parse(lines[0]) == Json{{"id", 1}, {"prompt", "x"}, {"answer", by_hand("x")}});
  const auto second = Json::parse(lines[1]);
  CHECK(second.at("answer") == by_hand("<user>a!</s><assistant>b!</s><user>c!</s><assistant>"));
  CHECK(second.at("messages").size() == 4);
  CHECK(second.at("messages").back() == Json{{"role", "assistant"}, {"content", second.at("answer")}});
}

TEST_CASE("chat keeps the conversation, alike on any number of ranks") {
  const Workspace work;
  make_model(work);
  const std::string model = "runs/small/model";
  const auto refused = run_with(work, "hi\n", {"chat", model});
  CHECK(refused.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(refused.err, Contains("runs/small/model has no chat template: it continues texts\n    fix: call `capstan "
                                   "generate runs/small/model \"TEXT\"`, or name a template: --template FILE"));
  work.write(model + "/chat_template.jinja", chatml);
  const auto by_hand = [&](const std::string& text) {
    return work.run(with({"generate", model, "--plain", text}, short_answers)).out;
  };
  const auto first = by_hand("<user>hi</s><assistant>");
  const auto second =
      by_hand(cat("<user>hi</s><assistant>", first.substr(0, first.size() - 1), "</s><user>b</s><assistant>"));
  const auto third = by_hand("<system>s</s><user>c</s><assistant>");
  const auto all = cat(first, second, third);
  for (const std::string ranks : {"1", "2"}) {
    const auto ran = run_with(work, "hi\nb\n/reset\n/system s\nc\n", with({"chat", model, "-n", ranks}, short_answers));
    INFO(ran.all());
    CHECK(ran.code == 0);
    CHECK(ran.out == all);
    CHECK_THAT(ran.err, Contains("(cut after 12 tokens: call it with --set train.max_new_tokens=24)\n"));
  }
  const auto twice = run_with(work, "hi\nhi\nhi\n", with({"chat", model}, {"--set", "train.max_new_tokens=40"}));
  CHECK(twice.code == 0);
  CHECK_THAT(twice.err, Contains("the oldest 2 messages are left out: the model has 130 positions\n"));
}

TEST_CASE("on a terminal an answer comes as it is generated; Ctrl-C stops it, and the conversation continues") {
  const Workspace work;
  // It has seen no end token, and so ends no answer itself.
  make_run(
      work,
      cat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ")", letters, R"("}]})"),
      "100000", "turn = \"{content}\"");
  const std::string model = "runs/small/model";
  work.write(model + "/chat_template.jinja", chatml);
  const std::string ranks = GENERATE(as<std::string>(), "1", "2");
  OnTerminal chat(work, {"chat", model, "-n", ranks, "--set", "train.max_new_tokens=100000"});
  const auto expect = [&](const std::string& text, std::size_t more = 0) {
    const bool is_shown = chat.shows(text, more);
    INFO(chat.shown());
    REQUIRE(is_shown);
  };
  expect("> ");
  chat.type("hi\n");
  expect("hi\r\n", 20);
  chat.type("\x03");
  expect("(stopped)\r\n");
  expect("> ");
  chat.type("/reset\n");
  expect("a new conversation\r\n");
  chat.type("\x04");
  CHECK(chat.wait() == 0);
}

}  // namespace chat_test
