#include "ranks/comm_settings.h"

#include <capstan_catch.h>

namespace comm_settings_test {

namespace {
using namespace capstan::launch;  // NOLINT(google-build-using-namespace)
using namespace capstan::ranks;   // NOLINT(google-build-using-namespace)

TEST_CASE("[comm] becomes NCCL's variables; those of the environment stay and are shown") {
  capstan::setup::CommOptions options;
  const capstan::ranks::Variables exported{{"NCCL_ALGO", "Tree"}, {"NCCL_NET_GDR_LEVEL", "4"}, {"HOME", "/home/a"}};
  auto settings = comm_settings(options, exported);
  CHECK(settings.set.empty());
  CHECK(settings.interface.empty());
  CHECK(text(settings.all) == "NCCL_ALGO=Tree NCCL_NET_GDR_LEVEL=4");

  options.interface = "ib0";
  options.ib_hca = "mlx5_0,mlx5_1";
  options.algorithm = "Ring";
  settings = comm_settings(options, exported);
  CHECK(settings.interface == "ib0");
  CHECK(text(settings.set) == "NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_SOCKET_IFNAME==ib0");
  CHECK(text(settings.all) == "NCCL_ALGO=Tree NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_NET_GDR_LEVEL=4 NCCL_SOCKET_IFNAME==ib0");
  REQUIRE(settings.warnings.size() == 1);
  CHECK(settings.warnings[0] ==
        R"(NCCL_ALGO=Tree of the environment wins over comm.algorithm = "Ring": unset it to use the option)");
  // The same value by another way is no contradiction.
  CHECK(comm_settings(options, {{"NCCL_ALGO", "Ring"}, {"NCCL_SOCKET_IFNAME", "ib0"}}).warnings.empty());
  // Gloo's own variable, where the option is not set.
  CHECK(comm_settings({}, {{"GLOO_SOCKET_IFNAME", "eth1,eth2"}}).interface == "eth1");
}

}  // namespace

}  // namespace comm_settings_test
