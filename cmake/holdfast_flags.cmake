# hf_flags: what every file of ours is compiled with. Never exported: a user's flags are the user's business.
add_library(hf_flags INTERFACE)
target_compile_definitions(
    hf_flags INTERFACE HOLDFAST_CHECKED=$<BOOL:${HOLDFAST_CHECKED}> HOLDFAST_MUTANTS=$<BOOL:${HOLDFAST_MUTANTS}>
)
if(HOLDFAST_UNDER_QEMU)
    target_compile_definitions(hf_flags INTERFACE HOLDFAST_UNDER_QEMU)
endif()
target_link_libraries(hf_flags INTERFACE hf_third_party)
# __FILE__ starts at the root: assertions name no directory of this machine, and clones share the cache of a compiler.
target_compile_options(hf_flags INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

set(common_warnings
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wsign-conversion
    -Wundef
)
# What is local to one file hides nothing of another: of files that are compiled together this is no warning.
list(APPEND common_warnings $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-shadow>)
set(cxx_warnings -Wnon-virtual-dtor -Wold-style-cast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    list(APPEND common_warnings -Wthread-safety)
    target_link_options(hf_flags INTERFACE -fuse-ld=lld)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC collects its garbage from 128 MiB on, which takes a sixth of the time that several files at once need.
    target_compile_options(hf_flags INTERFACE --param=ggc-min-heapsize=524288 --param=ggc-min-expand=200)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees overlaps in std::string's operator+ that cannot be (its bug 105651, mended in 13).
    list(APPEND cxx_warnings -Wno-restrict)
endif()
if(HOLDFAST_WARNINGS_AS_ERRORS)
    list(APPEND common_warnings -Werror)
endif()
target_compile_options(hf_flags INTERFACE ${common_warnings} "$<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>")
if(HOLDFAST_CLANG_TIDY)
    # .clang-tidy says what; a finding fails the compilation. Tests, whose headers are the largest, are spared the
    # checks that cost most and find least there.
    set(CMAKE_CXX_CLANG_TIDY clang-tidy-16 --quiet)
    set(HOLDFAST_CLANG_TIDY_TESTS
        clang-tidy-16 --quiet
        --checks=-clang-analyzer-*,-misc-*,-modernize-*,-cppcoreguidelines-*,-performance-*
    )
endif()

if(HOLDFAST_SANITIZE)
    add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
endif()
if(HOLDFAST_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(HOLDFAST_COVERAGE)
    add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
    add_link_options(-fprofile-instr-generate)
endif()
