#include "checkpoint/writer_copy.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <chrono>
#include <thread>

namespace writer_copy_test {

using namespace capstan;
using namespace capstan::checkpoint;
using layout::Box;

TEST_CASE("what stays as it is until the update is copied during training, and the update waits for that") {
  const auto stays = at::ones({100}), changes = at::ones({100});
  const auto box_of = [](const char* name, const at::Tensor& data, bool until_update) {
    return TensorBox{name, {100}, Box::whole({100}), data, until_update};
  };
  HostCopy copy(/*pinned=*/false);
  for (int save = 0; save < 2; ++save) {
    const auto copies = copy.begin({box_of("stays", stays, true), box_of("changes", changes, false)});
    changes.fill_(2);
    stays.fill_(3);  // which no caller may do: it shows that begin() has not copied it
    std::thread writer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      copy.finish();
    });
    copy.hold();
    stays.fill_(4);
    copy.hold();  // the next update: nothing is left to wait for
    writer.join();
    CHECK(copies[0].data.eq(3).all().item<bool>());
    CHECK(copies[1].data.eq(save == 0 ? 1 : 2).all().item<bool>());
    CHECK(copy.held_s() > 0);
  }
}

}  // namespace writer_copy_test
