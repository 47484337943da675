#include "comm/c10d_store.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace capstan::comm {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

class C10dStore final : public c10d::Store {
 public:
  explicit C10dStore(std::unique_ptr<peers::Store> store) : store_(std::move(store)) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<C10dStore>(store_->clone()); }
  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override { store_->set(key, text_of(value)); }
  using c10d::Store::compareSet;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return bytes_of(store_->compare_and_set(key, text_of(expected), text_of(desired)));
  }
  Bytes get(const std::string& key) override { return multiGet({key}).front(); }
  std::int64_t add(const std::string& key, std::int64_t value) override { return store_->add(key, value); }
  bool deleteKey(const std::string& key) override { return store_->erase(key); }
  bool check(const std::vector<std::string>& keys) override { return store_->has(keys); }
  std::int64_t getNumKeys() override { return store_->count(); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const auto until = std::chrono::steady_clock::now() + timeout;
    milliseconds pause{1};
    while (!store_->has(keys)) {
      if (timeout != kNoTimeout && std::chrono::steady_clock::now() > until)
        throw std::runtime_error(cat("no rank has set ", join(keys), " in time"));
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, milliseconds(50));
    }
  }
  void append(const std::string& key, const Bytes& value) override { store_->append(key, text_of(value)); }
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    wait(keys);
    std::vector<Bytes> values;
    for (const auto& value : store_->get(keys)) values.push_back(bytes_of(value));
    return values;
  }
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override {
    for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
  }
  bool hasExtendedApi() const override { return true; }

 private:
  const std::unique_ptr<peers::Store> store_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> as_c10d(const peers::Store& store) {
  return c10::make_intrusive<C10dStore>(store.clone());
}

}  // namespace capstan::comm
