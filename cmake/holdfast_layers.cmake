# One target a layer, and the library that unites them.
#   hf_<layer>          links the layers below; what tests of the layer link
#   hf_<layer>_objects  its object files, for the united library
#   holdfast::holdfast  all layers, public headers only: what programs link, ours and others'
set(HOLDFAST_SOURCE_ROOT ${PROJECT_SOURCE_DIR}/src)

# What is measured, and shows that each file includes what it needs.
function(hf_compile_each_file target)
    if(NOT HOLDFAST_UNITY_LAYERS)
        set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    endif()
endfunction()

function(hf_add_layers)
    set(below hf_flags Threads::Threads Boost::headers)
    set(objects "")
    foreach(layer IN LISTS ARGN)
        file(GLOB sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*.cpp)
        list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")
        if(sources)
            add_library(hf_${layer}_objects OBJECT ${sources})
            hf_compile_each_file(hf_${layer}_objects)
            target_link_libraries(hf_${layer}_objects PUBLIC ${below})
            target_include_directories(hf_${layer}_objects PUBLIC ${HOLDFAST_SOURCE_ROOT})
            if(layer STREQUAL "api")
                target_include_directories(hf_${layer}_objects PUBLIC ${HOLDFAST_SOURCE_ROOT}/api/include)
            endif()
            add_library(hf_${layer} STATIC $<TARGET_OBJECTS:hf_${layer}_objects>)
            set(visibility PUBLIC)
            list(APPEND objects $<TARGET_OBJECTS:hf_${layer}_objects>)
        else()
            add_library(hf_${layer} INTERFACE) # a layer that still waits for its sources, or has headers alone
            set(visibility INTERFACE)
        endif()
        target_link_libraries(hf_${layer} ${visibility} ${below})
        target_include_directories(hf_${layer} ${visibility} ${HOLDFAST_SOURCE_ROOT})
        if(layer STREQUAL "api")
            target_include_directories(hf_${layer} ${visibility} ${HOLDFAST_SOURCE_ROOT}/api/include)
        endif()
        set(below hf_${layer})
    endforeach()
    set(HOLDFAST_OBJECTS ${objects} PARENT_SCOPE)
endfunction()

function(hf_add_library)
    add_library(holdfast ${HOLDFAST_OBJECTS})
    add_library(holdfast::holdfast ALIAS holdfast)
    target_link_libraries(holdfast PUBLIC Threads::Threads Boost::headers)
    target_include_directories(
        holdfast PUBLIC $<BUILD_INTERFACE:${HOLDFAST_SOURCE_ROOT}/api/include>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    )
    target_compile_features(holdfast PUBLIC cxx_std_20)
    set_source_files_properties(
        ${HOLDFAST_SOURCE_ROOT}/api/c_face.cpp PROPERTIES COMPILE_DEFINITIONS HOLDFAST_VERSION="${PROJECT_VERSION}"
    )
    set_target_properties(
        holdfast PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    )
endfunction()

# hf_add_program(name SOURCES ... [LIBRARIES ...]): a program of ours on the public headers alone (cli, examples,
# bench), in bin/.
function(hf_add_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE hf_flags holdfast::holdfast ${arg_LIBRARIES})
endfunction()

# Adds every directory that has the given CMakeLists.txt; none is fine.
function(hf_add_subdirectories pattern)
    file(GLOB lists CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${pattern})
    foreach(list IN LISTS lists)
        get_filename_component(directory ${list} DIRECTORY)
        add_subdirectory(${directory})
    endforeach()
endfunction()
