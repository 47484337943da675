#pragma once
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// The host's address as digits, IPv4 preferred: "localhost" -> "127.0.0.1". Throws Error for an unknown host.
std::string resolve(const std::string& host);
/// The address of a network interface of this host; Error names the interfaces that there are.
std::string address_of_interface(const std::string& interface);
/// This host's address on the way to another; "" when there is no way.
std::string address_towards(const std::string& address);
/// An address that other hosts can reach: that of the host's name unless it is a loopback one, else that of the
/// first interface that is up; "127.0.0.1" on a machine without network.
std::string own_address();
bool is_loopback(const std::string& address);

}  // namespace comm
CAPSTAN_END_NAMESPACE
