// mdb_copy: a copy of an environment, to a directory, a file or standard output.
#include <unistd.h>

#include <cstdio>

#include "store_tools/tool.hpp"

namespace holdfast_store_tools {
namespace {

void run(const tool_arguments& given) {
    if (given.paths.empty() || given.paths.size() > 2) {
        throw usage_error("");
    }
    const unsigned how = given.count('c') != 0 ? MDB_CP_COMPACT : 0;
    const environment opened(given.paths.front(), MDB_RDONLY | (given.count('n') != 0 ? MDB_NOSUBDIR : 0U));
    const int code = given.paths.size() == 1 ? mdb_env_copyfd2(opened.get(), STDOUT_FILENO, how)
                                             : mdb_env_copy2(opened.get(), given.paths[1].c_str(), how);
    if (code != 0) {
        throw std::runtime_error("copying failed, error " + std::to_string(code) + " (" + mdb_strerror(code) + ")");
    }
}

}  // namespace
}  // namespace holdfast_store_tools

int main(int argc, char** argv) {
    return holdfast_store_tools::run_tool(argc, argv, "Vcn", "[-V] [-c] [-n] srcpath [dstpath]",
                                          holdfast_store_tools::run);
}
