# Tests. Each carries labels; `scripts/test.sh` runs, of every preset, those that carry the label `suite`, which is
# added here: a preset names the labels it runs (HOLDFAST_SUITE_LABELS, empty: all) and those it leaves to another
# preset (HOLDFAST_SUITE_EXCLUDE). The target `suite` builds just these.
#
# Labels in use: unit (also the default), thread, single (long, of one thread: not under TSan), fault, crash (simulator,
# mutants), model (of the protocol), killcrash, powerloss, dax (a guest that is killed), package, compile, lint, smoke
# (benchmarks and examples, shortest form), fuzz, soak (by hand only).
set(HOLDFAST_SUITE_LABELS "" CACHE STRING "Labels of the tests that this preset runs in the suite; empty: all")
set(HOLDFAST_SUITE_EXCLUDE "soak" CACHE STRING "Labels of the tests that this preset does not run in the suite")
set(HOLDFAST_TEST_PREFIX "" CACHE STRING "Put before the name of every test")
if(NOT TARGET suite)
    add_custom_target(suite)
endif()

set(HOLDFAST_TEST_LAUNCHER "")
set(HOLDFAST_SKIPPED_TESTS "") # as --gtest_filter knows them
if(HOLDFAST_SANITIZE)
    list(APPEND HOLDFAST_SKIPPED_TESTS map_page.*) # they run a browser, which the sanitizer does not see
endif()
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
endif()

# hf_register_test(NAME name COMMAND ... [LABELS ...] [TIMEOUT seconds] [SERIAL] [TARGETS ...])
# SERIAL: runs alone (timing, loop devices). TARGETS: what must be built before.
function(hf_register_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;TIMEOUT" "COMMAND;LABELS;TARGETS")
    if(NOT HOLDFAST_BUILD_TESTS)
        return()
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    if(HOLDFAST_SANITIZE)
        math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}") # what a sanitizer costs; a limit is for what hangs
    endif()
    set(in_suite TRUE)
    if(HOLDFAST_SUITE_LABELS)
        set(in_suite FALSE)
    endif()
    foreach(label IN LISTS arg_LABELS)
        if(label IN_LIST HOLDFAST_SUITE_LABELS)
            set(in_suite TRUE)
        endif()
    endforeach()
    foreach(label IN LISTS arg_LABELS)
        if(label IN_LIST HOLDFAST_SUITE_EXCLUDE)
            set(in_suite FALSE)
        endif()
    endforeach()
    if(in_suite)
        list(APPEND arg_LABELS suite)
        if(arg_TARGETS)
            add_dependencies(suite ${arg_TARGETS})
        endif()
    endif()
    set(name "${HOLDFAST_TEST_PREFIX}${arg_NAME}")
    add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set(environment "HOLDFAST_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "UBSAN_OPTIONS=print_stacktrace=1")
    if(HOLDFAST_SKIPPED_TESTS)
        list(JOIN HOLDFAST_SKIPPED_TESTS ":" skipped)
        list(APPEND environment "GTEST_FILTER=-${skipped}")
    endif()
    if(HOLDFAST_COVERAGE)
        list(APPEND environment "LLVM_PROFILE_FILE=${CMAKE_BINARY_DIR}/profile/${arg_NAME}-%p.profraw")
    endif()
    set_tests_properties(
        ${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL} ENVIRONMENT
                                                                                                  "${environment}"
    )
endfunction()

# hf_add_test(name SOURCES ... [LIBRARIES hf_heap ...] [LABELS ...] [TIMEOUT seconds] [ARGUMENTS ...] [SERIAL])
# A GoogleTest executable and its test. Without LIBRARIES: hf_api, with that all layers.
function(hf_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ARGUMENTS")
    if(NOT HOLDFAST_BUILD_TESTS)
        return()
    endif()
    if(NOT arg_LIBRARIES)
        set(arg_LIBRARIES hf_api)
    endif()
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE hf_flags ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
    if(HOLDFAST_SANITIZE MATCHES "address")
        # The tests' own code is not worth the time that a compiler needs for so many checks. Under TSan it is: without
        # optimisation, tests would run twice as long.
        target_compile_options(${name} PRIVATE -O0)
    endif()
    set_target_properties(
        ${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin CXX_CLANG_TIDY
                                                                                   "${HOLDFAST_CLANG_TIDY_TESTS}"
    )
    set(serial "")
    if(arg_SERIAL)
        set(serial SERIAL)
    endif()
    hf_register_test(
        NAME ${name} COMMAND ${HOLDFAST_TEST_LAUNCHER} $<TARGET_FILE:${name}> ${arg_ARGUMENTS} LABELS ${arg_LABELS}
        TIMEOUT ${arg_TIMEOUT} TARGETS ${name} ${serial}
    )
endfunction()

# src/<layer>/*_test.cpp: one executable a layer; it links its own layer and those below, no more.
function(hf_add_layer_tests)
    foreach(layer IN LISTS ARGN)
        file(GLOB sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*_test.cpp)
        if(sources)
            hf_add_test(${layer}_test SOURCES ${sources} LIBRARIES hf_${layer} LABELS unit)
        endif()
    endforeach()
endfunction()

# src/<layer>/<x>_fuzz.cpp: one libFuzzer executable each, build/fuzz/fuzz/<x>_fuzz, and two tests. <x>_fuzz, in the
# suite: the inputs of tests/corpus/<x>, then HOLDFAST_FUZZ_RUNS_<x> more from a fixed seed, about 20 s. <x>_fuzz_soak,
# for scripts/soak.sh: ten minutes from a random one; it keeps what it learns in build/fuzz/fuzz/<x>.
set(HOLDFAST_FUZZ_RUNS_superblock 100000)
set(HOLDFAST_FUZZ_RUNS_journal 50000)
set(HOLDFAST_FUZZ_RUNS_recovery 4000)
set(HOLDFAST_FUZZ_RUNS_heap 2500)
set(HOLDFAST_FUZZ_RUNS_lanes 10000)
function(hf_add_layer_fuzzers)
    target_compile_options(hf_simulator PRIVATE -fno-sanitize=fuzzer-no-link)
    foreach(layer IN LISTS ARGN)
        file(GLOB sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*_fuzz.cpp)
        foreach(source IN LISTS sources)
            get_filename_component(name ${source} NAME_WE)
            string(REGEX REPLACE "_fuzz$" "" subject ${name})
            add_executable(${name} ${source})
            target_link_libraries(${name} PRIVATE hf_flags hf_${layer} hf_simulator)
            # Only what is examined counts as new: neither the fuzzer nor the machine below is worth an input.
            target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
            set(output ${CMAKE_BINARY_DIR}/fuzz)
            set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${output})
            set(limits -timeout=20 -rss_limit_mb=1024 -artifact_prefix=${output}/${subject}-)
            # A list in a file and no directory: libFuzzer would write into the first one.
            file(GLOB corpus CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/corpus/${subject}/*)
            string(REPLACE ";" "," inputs "${corpus}")
            file(WRITE ${output}/${subject}.inputs "${inputs}")
            set(seeds "")
            if(corpus)
                set(seeds -seed_inputs=@${output}/${subject}.inputs)
            endif()
            hf_register_test(
                NAME ${name} COMMAND $<TARGET_FILE:${name}> ${limits} -seed=1 -runs=${HOLDFAST_FUZZ_RUNS_${subject}}
                                     ${seeds} LABELS fuzz TARGETS ${name} TIMEOUT 300
            )
            file(MAKE_DIRECTORY ${output}/${subject})
            hf_register_test(
                NAME ${name}_soak COMMAND $<TARGET_FILE:${name}> ${limits} -max_total_time=600 ${seeds}
                                          ${output}/${subject} LABELS fuzz soak TARGETS ${name} TIMEOUT 900
            )
        endforeach()
    endforeach()
endfunction()

# src/<layer>/*_bench.cpp: one Google Benchmark executable a layer, bin/<layer>_bench; its smoke test is the shortest
# run.
function(hf_add_layer_benchmarks)
    foreach(layer IN LISTS ARGN)
        file(GLOB sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*_bench.cpp)
        if(sources)
            add_executable(${layer}_bench ${sources})
            hf_compile_each_file(${layer}_bench)
            target_link_libraries(
                ${layer}_bench PRIVATE hf_flags hf_${layer} benchmark::benchmark benchmark::benchmark_main
            )
            hf_register_test(
                NAME ${layer}_bench COMMAND $<TARGET_FILE:${layer}_bench> --benchmark_min_time=0.001 LABELS smoke
                TARGETS ${layer}_bench
            )
        endif()
    endforeach()
endfunction()
