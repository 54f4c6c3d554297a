/* What jni.h asks of a platform: that of Windows on x86-64. */
#ifndef LOAM_JNI_MD_H
#define LOAM_JNI_MD_H

#define JNIEXPORT __declspec(dllexport)
#define JNIIMPORT __declspec(dllimport)
#define JNICALL

typedef int jint;
typedef long long jlong;
typedef signed char jbyte;

#endif
