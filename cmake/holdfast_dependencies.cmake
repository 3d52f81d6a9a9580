# What we build upon. All of it is headers for the library, so that the installed package needs Boost headers and
# threads alone, and so that cross-compiling needs no foreign libraries.
include(holdfast_packages)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Tools for programs and tests, used as headers: CLI11 (by src/command_line alone), nlohmann-json; and fmt, whose
# functions src/base/fmt.cpp has.
# Our copy of fmt has a namespace of its own: a program may link fmt's library, of this version or another, beside us.
add_library(hf_third_party INTERFACE)
target_compile_definitions(
    hf_third_party INTERFACE XXH_INLINE_ALL "FMT_BEGIN_NAMESPACE=namespace fmt { inline namespace of_holdfast {"
                             "FMT_END_NAMESPACE=}}"
)
if(CMAKE_CROSSCOMPILING)
    # The headers of the build machine that do not depend on its architecture, by name: all of its /usr/include would
    # hide the C library of the target.
    set(HOLDFAST_HOST_INCLUDE /usr/include CACHE PATH "Where the headers boost, fmt, ... of the build machine lie")
    set(cross_include ${CMAKE_BINARY_DIR}/cross-include)
    file(MAKE_DIRECTORY ${cross_include})
    foreach(name boost fmt CLI nlohmann xxhash.h xxh3.h)
        if(EXISTS ${HOLDFAST_HOST_INCLUDE}/${name})
            file(CREATE_LINK ${HOLDFAST_HOST_INCLUDE}/${name} ${cross_include}/${name} SYMBOLIC)
        endif()
    endforeach()
    add_library(Boost::headers INTERFACE IMPORTED GLOBAL)
    target_include_directories(Boost::headers INTERFACE ${cross_include})
else()
    hf_need_package(Boost 1.74 DEBIAN libboost1.81-dev TARGETS Boost::headers HEADERS boost/container/vector.hpp
                    FOR "the library"
    )
    if(HOLDFAST_BUILD_TESTS) # some are of what Boost has had since
        hf_need_package(Boost 1.81 DEBIAN libboost1.81-dev TARGETS Boost::headers FOR "the tests")
    endif()
endif()
hf_need_headers(fmt DEBIAN libfmt-dev HEADER fmt/format.h LEAST 9.1 IN fmt/core.h MACRO FMT_VERSION FOR "the library")
hf_need_headers(
    xxHash DEBIAN libxxhash-dev HEADER xxhash.h LEAST 0.8.1 IN xxhash.h MACRO XXH_VERSION_MAJOR XXH_VERSION_MINOR
                                                                              XXH_VERSION_RELEASE
    FOR "the library"
)
if(HOLDFAST_BUILD_CLI OR HOLDFAST_BUILD_EXAMPLES OR HOLDFAST_BUILD_BENCH OR HOLDFAST_BUILD_TESTS)
    hf_need_headers(
        CLI11 DEBIAN libcli11-dev HEADER CLI/CLI.hpp LEAST 2.1.2 IN CLI/Version.hpp MACRO CLI11_VERSION_MAJOR
                                                                                         CLI11_VERSION_MINOR
                                                                                         CLI11_VERSION_PATCH
        FOR "programs (HOLDFAST_BUILD_CLI, HOLDFAST_BUILD_EXAMPLES)"
    )
endif()
if(HOLDFAST_BUILD_CLI OR HOLDFAST_BUILD_BENCH OR HOLDFAST_BUILD_TESTS)
    hf_need_headers(
        nlohmann-json DEBIAN nlohmann-json3-dev HEADER nlohmann/json.hpp LEAST 3.11.2 IN nlohmann/detail/abi_macros.hpp
        MACRO NLOHMANN_JSON_VERSION_MAJOR NLOHMANN_JSON_VERSION_MINOR NLOHMANN_JSON_VERSION_PATCH
        FOR "programs (HOLDFAST_BUILD_CLI)"
    )
endif()

if(CMAKE_CROSSCOMPILING)
    # Debian has GoogleTest as source, too.
    set(INSTALL_GTEST OFF)
    if(HOLDFAST_BUILD_TESTS)
        add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    endif()
    set(HOLDFAST_BUILD_BENCH OFF)
endif()
if(HOLDFAST_BUILD_TESTS AND NOT CMAKE_CROSSCOMPILING)
    hf_need_package(GTest 1.12 DEBIAN libgtest-dev TARGETS GTest::gtest GTest::gtest_main FOR "the tests")
    hf_check_package(GTest 1.12 TRUE "" DEBIAN libgmock-dev TARGETS GTest::gmock FOR "the tests")
endif()
if(HOLDFAST_BUILD_TESTS)
    find_package(Python3 3.11 QUIET COMPONENTS Interpreter)
    hf_check_package(
        Python3 3.11 "${Python3_FOUND}" "${Python3_VERSION}" DEBIAN python3 TARGETS Python3::Interpreter FOR "the tests"
    )
endif()
# A benchmark compares with programs that need GMP; those of single layers need Google Benchmark.
if(HOLDFAST_BUILD_BENCH)
    hf_need_package(GMP 6.2 DEBIAN libgmp-dev TARGETS GMP::gmpxx FOR "the benchmarks")
    hf_need_package(
        benchmark 1.7 DEBIAN libbenchmark-dev TARGETS benchmark::benchmark benchmark::benchmark_main
        FOR "the benchmarks"
    )
endif()
