#!/bin/bash
# The entry point of the image: start an executor if Spark has requested one from Kubernetes, or else run the command.
set -e
if ! getent passwd "$(id -u)" > /dev/null; then # the cluster has chosen the user, and Java needs a name for it
    NSS_WRAPPER_PASSWD=$(mktemp) NSS_WRAPPER_GROUP=/etc/group LD_PRELOAD=libnss_wrapper.so
    (cat /etc/passwd && echo "semcep:x:$(id -u):$(id -g)::/tmp:/bin/false") > "$NSS_WRAPPER_PASSWD"
    export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP LD_PRELOAD
fi
if [ -d "$NUMBA_CACHE_DIR" ] && [ ! -w "$NUMBA_CACHE_DIR" ]; then # another user, or a read-only file system
    kernels=$(mktemp -d)
    cp -R "$NUMBA_CACHE_DIR/." "$kernels"
    export NUMBA_CACHE_DIR=$kernels
fi
if [ "$1" = executor ]; then
    mapfile -t options < <(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*=\)/\1/p' | sort -n | cut -d= -f2-)
    set -- "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
fi
if command -v tini > /dev/null; then exec tini -s -- "$@"; fi
exec "$@"
