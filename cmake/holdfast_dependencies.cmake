# What we build upon. All of it is headers for the library, so that the installed package needs Boost headers and
# threads alone, and so that cross-compiling needs no foreign libraries.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

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
    find_package(Boost 1.81 REQUIRED)
endif()

# Tools for programs and tests, used as headers: CLI11 (by src/command_line alone), nlohmann-json; and fmt, whose
# functions src/base/fmt.cpp has.
# Our copy of fmt has a namespace of its own: a program may link fmt's library, of this version or another, beside us.
add_library(hf_third_party INTERFACE)
target_compile_definitions(
    hf_third_party INTERFACE XXH_INLINE_ALL "FMT_BEGIN_NAMESPACE=namespace fmt { inline namespace of_holdfast {"
                             "FMT_END_NAMESPACE=}}"
)
if(CMAKE_CROSSCOMPILING)
    target_include_directories(hf_third_party SYSTEM INTERFACE ${cross_include})
endif()

# hf_build_where_found(variable description PACKAGE): what only developers need is built where its package is found,
# unless the caller decides: told to build it, a missing package is an error.
macro(hf_build_where_found variable description package)
    if(DEFINED ${variable})
        if(${variable})
            find_package(${package} REQUIRED)
        endif()
    else()
        set(wanted OFF)
        if(PROJECT_IS_TOP_LEVEL)
            find_package(${package} QUIET)
            set(wanted ${${package}_FOUND})
            if(NOT wanted)
                message(STATUS "Not configured: ${description} (${package} is not found)")
            endif()
        endif()
        set(${variable} ${wanted})
    endif()
endmacro()
if(CMAKE_CROSSCOMPILING)
    # Debian has GoogleTest as source, too.
    set(INSTALL_GTEST OFF)
    if(HOLDFAST_BUILD_TESTS)
        add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    endif()
else()
    hf_build_where_found(HOLDFAST_BUILD_TESTS "the tests" GTest)
endif()
# A benchmark compares with programs that need GMP; those of single layers need Google Benchmark, too.
if(CMAKE_CROSSCOMPILING)
    set(HOLDFAST_BUILD_BENCH OFF)
endif()
hf_build_where_found(HOLDFAST_BUILD_BENCH "the benchmarks" GMP)
if(HOLDFAST_BUILD_BENCH)
    find_package(benchmark QUIET)
endif()
