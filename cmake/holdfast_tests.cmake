# Tests. Each is in one tier or more; a tier is a label that hf_register_test adds, and a target that builds its needs:
#   quick   what `make test` runs, before each commit: of a preset, the tests with a label of HOLDFAST_QUICK_LABELS
#   suite   what `make verify` runs: the tests with a label of HOLDFAST_SUITE_LABELS (empty: all), and none of
#           HOLDFAST_SUITE_EXCLUDE
#   soak    by hand, for hours: `make soak`
# A test that repeats has a short form in the tier quick and its whole in the tier suite.
#
# Labels in use: unit (also the default), thread, single (long, of one thread: not under TSan), fault, crash (simulator,
# mutants), model (of the protocol), killcrash, powerloss, dax (a guest that is killed), tools (large programs: a
# browser, servers), programs (it starts programs of ours, which qemu-user leaves to the kernel, and that to
# binfmt_misc), emulated (a run of the simulator under qemu-user), example, package, compile, lint, smoke (benchmarks,
# shortest form), fuzz.
set(HOLDFAST_QUICK_LABELS "" CACHE STRING "Labels of the tests that this preset runs in `make test`; empty: none")
set(HOLDFAST_SUITE_LABELS "" CACHE STRING "Labels of the tests that this preset runs in `make verify`; empty: all")
set(HOLDFAST_SUITE_EXCLUDE "" CACHE STRING "Labels of the tests that this preset does not run in `make verify`")
set(HOLDFAST_TEST_PREFIX "" CACHE STRING "Put before the name of every test")
set(HOLDFAST_TEST_FLAGS "" CACHE STRING "Compiler's flags for the code of tests, after those of the preset")
separate_arguments(HOLDFAST_TEST_FLAGS_LIST UNIX_COMMAND "${HOLDFAST_TEST_FLAGS}")
foreach(target IN ITEMS quick suite all_tests)
    if(NOT TARGET ${target})
        add_custom_target(${target})
    endif()
endforeach()

set(HOLDFAST_TEST_LAUNCHER "")
set(HOLDFAST_SKIPPED_TESTS "") # as --gtest_filter knows them
if(HOLDFAST_SANITIZE)
    list(APPEND HOLDFAST_SKIPPED_TESTS map_page.*) # they run a browser, which the sanitizer does not see
    # Debian's liblmdb forgets a name there.
    list(APPEND HOLDFAST_SKIPPED_TESTS *.a_handle_that_two_have_opened_is_there_when_one_commits/debian)
    # A sanitizer takes half a minute for each kind of database. Those that are left have all the code between them.
    foreach(kind none integer_keys reverse_keys one_each no_duplicates trees_of_duplicates fixed_and_mixed
                 integer_duplicates reverse_duplicates
    )
        list(APPEND HOLDFAST_SKIPPED_TESTS *cursor_table.*/${kind})
    endforeach()
    # Its child allocates, and clang 16's sanitizer does not let go of its allocator's locks there: the child hangs
    # where another thread of the parent was in malloc.
    list(APPEND HOLDFAST_SKIPPED_TESTS heap_fork_test.a_child_opens_heaps_of_its_own_whatever_its_parent_was_doing)
    # Without a descriptor UBSan has no pipe, by which it asks whether an object's memory can be read, and takes the
    # object for one of another type.
    list(APPEND HOLDFAST_SKIPPED_TESTS *.a_child_of_fork_ends_where_there_is_no_file_descriptor*/without_files)
    # Sanitizers take addresses by the tebibyte.
    list(APPEND HOLDFAST_SKIPPED_TESTS *few_addresses_test.* *process_effects_test.* *core_dump_test.*)
endif()
if(HOLDFAST_SANITIZE OR HOLDFAST_COVERAGE) # whose functions need more stack
    list(APPEND HOLDFAST_SKIPPED_TESTS *drop_in_test.threads_with_a_small_stack*)
endif()
if(CMAKE_CROSSCOMPILING)
    set(HOLDFAST_TEST_LAUNCHER ${CMAKE_CROSSCOMPILING_EMULATOR})
endif()
if(HOLDFAST_UNDER_QEMU)
    # User mode of QEMU keeps limits of addresses from its guest, whose heaps are smaller than these tests' blocks.
    list(APPEND HOLDFAST_SKIPPED_TESTS internal_arena_test.serves_a_process_that_may_have_few_addresses
         drop_in_memory_test.* *few_addresses_test.* *process_effects_test.* *core_dump_test.*
    )
endif()
# Under qemu-user, programs of many tests run in parts, each with its share of them: side by side, and the emulator,
# whose memory only grows while it runs (base/under_qemu.hpp), needs no more of it than a part does.
set(HOLDFAST_PARTS_slab_test 2)
set(HOLDFAST_PARTS_heap_test 4)
set(HOLDFAST_PARTS_api_test 4)
set(HOLDFAST_PARTS_attack_test 2)
if(HOLDFAST_SANITIZE MATCHES "thread")
    # ThreadSanitizer of clang 16 knows 28 bits of address randomisation; newer kernels use up to 32.
    execute_process(COMMAND setarch --addr-no-randomize true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
    if(refused EQUAL 0)
        set(HOLDFAST_TEST_LAUNCHER setarch --addr-no-randomize)
    endif()
    # Long tests of one thread, and one that does many times what others do: nothing more to see there.
    list(
        APPEND HOLDFAST_SKIPPED_TESTS
        cut_trace.is_finished_by_the_next_after_every_write
        *heap_guards_test.a_store_behind_a_slab_kills*
        slab_hostile_test.*
    )
    # A handler of atexit that runs when the last thread of a child has ended is a crash of its runtime.
    list(APPEND HOLDFAST_SKIPPED_TESTS manager_test.a_thread_that_ended_in_a_child_waited_for_a_commit_of_the_parent)
    # ThreadSanitizer's runtime does not bear a trap behind each instruction, and keeps memory of its own for each page
    # that the program touches.
    list(
        APPEND HOLDFAST_SKIPPED_TESTS
        flush.WritesBackEachLineOfTheRangeOnceAndNoOther
        domain.EachExecutesWhatItsMediaNeed
        drop_in_memory_test.*
    )
endif()

# hf_is_in_tier(result tier labels): whether this preset runs a test with these labels in the tier.
function(hf_is_in_tier result tier labels)
    set(${result} FALSE PARENT_SCOPE)
    if(tier STREQUAL "quick")
        set(wanted ${HOLDFAST_QUICK_LABELS})
    else()
        set(wanted ${HOLDFAST_SUITE_LABELS})
        if(NOT wanted)
            set(wanted ${labels})
        endif()
        foreach(label IN LISTS labels)
            if(label IN_LIST HOLDFAST_SUITE_EXCLUDE)
                return()
            endif()
        endforeach()
    endif()
    foreach(label IN LISTS labels)
        if(label IN_LIST wanted)
            set(${result} TRUE PARENT_SCOPE)
        endif()
    endforeach()
endfunction()

# hf_register_test(NAME name COMMAND ... [LABELS ...] [TIERS quick suite | soak] [TIMEOUT seconds] [SERIAL]
#                  [ALL_PROCESSORS] [TARGETS ...])
# SERIAL: runs alone (timing, loop devices). ALL_PROCESSORS: shares its work out to all of them itself. TARGETS: what
# must be built before.
function(hf_register_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL;ALL_PROCESSORS" "NAME;TIMEOUT" "COMMAND;LABELS;TIERS;TARGETS")
    if(NOT HOLDFAST_BUILD_TESTS)
        return()
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    if(NOT arg_TIERS)
        set(arg_TIERS quick suite)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    if(HOLDFAST_SANITIZE OR HOLDFAST_UNDER_QEMU)
        math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}") # what a sanitizer or an emulator costs; a limit is for what hangs
    endif()
    if(arg_TARGETS)
        add_dependencies(all_tests ${arg_TARGETS})
    endif()
    set(labels ${arg_LABELS})
    foreach(tier IN LISTS arg_TIERS)
        if(tier STREQUAL "soak")
            list(APPEND labels soak)
            continue()
        endif()
        hf_is_in_tier(included ${tier} "${arg_LABELS}")
        if(included)
            list(APPEND labels ${tier})
            if(arg_TARGETS)
                add_dependencies(${tier} ${arg_TARGETS})
            endif()
        endif()
    endforeach()
    set(name "${HOLDFAST_TEST_PREFIX}${arg_NAME}")
    add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/run_test.sh ${arg_COMMAND}
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    )
    set(environment "HOLDFAST_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "UBSAN_OPTIONS=print_stacktrace=1")
    if(HOLDFAST_SKIPPED_TESTS)
        list(JOIN HOLDFAST_SKIPPED_TESTS ":" skipped)
        list(APPEND environment "GTEST_FILTER=-${skipped}")
    endif()
    if(HOLDFAST_COVERAGE)
        list(APPEND environment "LLVM_PROFILE_FILE=${CMAKE_BINARY_DIR}/profile/${arg_NAME}-%p.profraw")
    endif()
    set_tests_properties(
        ${name} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL}
                           ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77
    )
    if(arg_ALL_PROCESSORS)
        set_tests_properties(${name} PROPERTIES PROCESSORS 8)
    endif()
endfunction()

# What nearly every test includes: with the flags of tests, and with those of simulators.
if(HOLDFAST_BUILD_TESTS)
    set(headers <algorithm> <array> <atomic> <chrono> <filesystem> <fstream> <functional> <map> <memory> <mutex>
                <optional> <random> <set> <string> <thread> <vector> <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h>
    )
    set(as_google_test GTEST_HAS_PTHREAD=1)
    hf_compile_headers(
        hf_test_headers FLAGS ${HOLDFAST_TEST_FLAGS_LIST} DEFINITIONS ${as_google_test} HEADERS ${headers}
    )
    hf_compile_headers(hf_simulator_headers DEFINITIONS ${as_google_test} HEADERS ${headers})
endif()

# hf_test_flags(target...): the code of tests is compiled once and run for seconds.
function(hf_test_flags)
    foreach(target IN LISTS ARGN)
        target_compile_options(${target} PRIVATE ${HOLDFAST_TEST_FLAGS_LIST})
        get_target_property(sources ${target} SOURCES)
        if(NOT sources MATCHES "\\.c(;|$)")
            hf_use_headers(hf_test_headers ${target})
        endif()
        set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "${HOLDFAST_CLANG_TIDY_TESTS}")
    endforeach()
endfunction()

# hf_add_test(name SOURCES ... [LIBRARIES hf_heap ...] [LABELS ...] [TIERS ...] [TIMEOUT seconds] [SERIAL]
#             [ALL_PROCESSORS] [OPTIMISED] [ARGUMENTS ...] [QUICK arguments...] [SOAK arguments...])
# A GoogleTest executable and its test. Without LIBRARIES: hf_c_api, with that all layers. OPTIMISED: its own code is
# what takes the time (simulators). QUICK, SOAK: further tests of the same executable, name_quick and name_soak, with
# these arguments and in that tier alone; with QUICK, the test itself is in the tier suite.
function(hf_add_test name)
    cmake_parse_arguments(
        PARSE_ARGV 1 arg "SERIAL;ALL_PROCESSORS;OPTIMISED" "TIMEOUT"
        "SOURCES;LIBRARIES;LABELS;TIERS;ARGUMENTS;QUICK;SOAK"
    )
    if(NOT HOLDFAST_BUILD_TESTS)
        return()
    endif()
    if(NOT arg_LIBRARIES)
        set(arg_LIBRARIES hf_c_api)
    endif()
    add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE hf_flags ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
    if(arg_OPTIMISED)
        hf_use_headers(hf_simulator_headers ${name})
    else()
        hf_test_flags(${name})
    endif()
    set(how LABELS ${arg_LABELS} TARGETS ${name})
    foreach(option IN ITEMS SERIAL ALL_PROCESSORS)
        if(arg_${option})
            list(APPEND how ${option})
        endif()
    endforeach()
    set(command ${HOLDFAST_TEST_LAUNCHER} $<TARGET_FILE:${name}>)
    if(arg_QUICK)
        set(arg_TIERS suite)
        hf_register_test(
            NAME ${name}_quick COMMAND ${command} ${arg_QUICK} TIERS quick TIMEOUT ${arg_TIMEOUT} ${how}
        )
    endif()
    if(arg_SOAK)
        hf_register_test(NAME ${name}_soak COMMAND ${command} ${arg_SOAK} TIERS soak TIMEOUT 172800 ${how})
    endif()
    if(HOLDFAST_UNDER_QEMU AND HOLDFAST_PARTS_${name})
        math(EXPR last "${HOLDFAST_PARTS_${name}} - 1")
        foreach(part RANGE ${last})
            set(share ${CMAKE_COMMAND} -E env GTEST_TOTAL_SHARDS=${HOLDFAST_PARTS_${name}} GTEST_SHARD_INDEX=${part})
            hf_register_test(
                NAME ${name}_${part} COMMAND ${share} ${command} ${arg_ARGUMENTS} TIERS ${arg_TIERS}
                TIMEOUT ${arg_TIMEOUT} ${how}
            )
        endforeach()
        return()
    endif()
    hf_register_test(
        NAME ${name} COMMAND ${command} ${arg_ARGUMENTS} TIERS ${arg_TIERS} TIMEOUT ${arg_TIMEOUT} ${how}
    )
endfunction()

# src/<layer>/**/*_test.cpp: one executable a layer; it links its own layer and those below, no more. Tests of api/ call
# the C interface, too.
function(hf_add_layer_tests)
    foreach(layer IN LISTS ARGN)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*_test.cpp)
        set(alone "")
        if(layer STREQUAL "base")
            set(alone SERIAL) # for how long threads wait for one another
        endif()
        string(REGEX REPLACE "^api$" "c_api" linked "${layer}")
        if(sources)
            hf_add_test(${layer}_test SOURCES ${sources} LIBRARIES hf_${linked} LABELS unit TIMEOUT 300 ${alone})
        endif()
    endforeach()
endfunction()

# src/<layer>/**/<x>_fuzz.cpp: one libFuzzer executable each, build/fuzz/fuzz/<x>_fuzz, and two tests. <x>_fuzz, in the
# tier suite: HOLDFAST_FUZZ_RUNS_<x> inputs from a fixed seed, about 20 s. <x>_fuzz_soak: ten minutes from a random one;
# it keeps what it learns in build/fuzz/fuzz/<x>.
set(HOLDFAST_FUZZ_RUNS_superblock 100000)
set(HOLDFAST_FUZZ_RUNS_journal 50000)
set(HOLDFAST_FUZZ_RUNS_log 8000)
set(HOLDFAST_FUZZ_RUNS_recovery 4000)
set(HOLDFAST_FUZZ_RUNS_heap 2500)
set(HOLDFAST_FUZZ_RUNS_lanes 10000)
set(HOLDFAST_FUZZ_RUNS_store 1000)
set(HOLDFAST_FUZZ_RUNS_store_import 20000)
function(hf_add_layer_fuzzers)
    target_compile_options(hf_simulator PRIVATE -fno-sanitize=fuzzer-no-link)
    foreach(layer IN LISTS ARGN)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*_fuzz.cpp)
        foreach(source IN LISTS sources)
            get_filename_component(name ${source} NAME_WE)
            string(REGEX REPLACE "_fuzz$" "" subject ${name})
            add_executable(${name} EXCLUDE_FROM_ALL ${source})
            target_link_libraries(${name} PRIVATE hf_flags hf_${layer} hf_simulator)
            # Only what is examined counts as new: neither the fuzzer nor the machine below is worth an input.
            target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
            target_compile_definitions(${name} PRIVATE HOLDFAST_TEST_FILES="${PROJECT_SOURCE_DIR}/tests")
            set(output ${CMAKE_BINARY_DIR}/fuzz)
            set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${output})
            set(limits -timeout=20 -rss_limit_mb=1024 -artifact_prefix=${output}/${subject}-)
            hf_register_test(
                NAME ${name} COMMAND $<TARGET_FILE:${name}> ${limits} -seed=1 -runs=${HOLDFAST_FUZZ_RUNS_${subject}}
                LABELS fuzz TARGETS ${name} TIMEOUT 300
            )
            file(MAKE_DIRECTORY ${output}/${subject})
            hf_register_test(
                NAME ${name}_soak COMMAND $<TARGET_FILE:${name}> ${limits} -max_total_time=600
                                          ${output}/${subject}
                LABELS fuzz TIERS soak TARGETS ${name} TIMEOUT 900
            )
        endforeach()
    endforeach()
endfunction()

# src/<layer>/**/*_bench.cpp: one Google Benchmark executable a layer, bin/<layer>_bench; its smoke test is the
# shortest run.
function(hf_add_layer_benchmarks)
    foreach(layer IN LISTS ARGN)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*_bench.cpp)
        if(sources)
            add_executable(${layer}_bench EXCLUDE_FROM_ALL ${sources})
            target_link_libraries(
                ${layer}_bench PRIVATE hf_flags hf_${layer} benchmark::benchmark benchmark::benchmark_main
            )
            add_dependencies(benchmarks ${layer}_bench)
            hf_register_test(
                NAME ${layer}_bench COMMAND $<TARGET_FILE:${layer}_bench> --benchmark_min_time=0.001 LABELS smoke
                TARGETS ${layer}_bench
            )
        endif()
    endforeach()
endfunction()
