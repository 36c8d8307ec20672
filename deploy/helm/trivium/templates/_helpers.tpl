{{- define "trivium.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "trivium.selector" -}}
app.kubernetes.io/name: trivium
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trivium.labels" -}}
{{ include "trivium.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* As `trivium-server serve-config` writes it; a test compares them. */}}
{{- define "trivium.serveConfig" -}}
proxy_location: EveryNode
http_options: {host: 0.0.0.0, port: 8000}
grpc_options:
  port: 9000
  request_timeout_s: 3600.0
  grpc_servicer_functions:
    - serving.rpc.registration.add_retrieval_service
    - serving.rpc.registration.add_ingest_service
    - serving.rpc.registration.add_catalog_service
    - serving.rpc.registration.add_admin_service
    - grpc_health.v1.health_pb2_grpc.add_HealthServicer_to_server
logging_config: {encoding: JSON, log_level: INFO, enable_access_log: false}
applications:
  - name: trivium
    route_prefix: /
    import_path: serving.deployments.app:build
    args:
      {{- mustMergeOverwrite (deepCopy .Values.settings) (dict "serve" (dict "placement" .Values.placement)) | toYaml | nindent 6 }}
    deployments:
      - name: Ingress
        user_config: {profiles: {{ .Values.profiles | toJson }}}
      {{- with .Values.deployments }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}

{{- /* A pod of Ray: context, resources and the rest of one group. */}}
{{- define "trivium.pod" -}}
{{- $ := .root -}}
metadata:
  labels:
    {{- include "trivium.labels" $ | nindent 4 }}
  {{- with $.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with $.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  containers:
    # KubeRay adds the probes: Ray's for all, and for a worker that of Serve's ingress.
    - name: ray
      image: "{{ $.Values.image.repository }}:{{ $.Values.image.tag | default $.Chart.AppVersion }}"
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      ports:
        - {name: grpc, containerPort: 9000}
        - {name: serve, containerPort: 8000}
        - {name: metrics, containerPort: 8080}
        {{- if .head }}
        - {name: gcs-server, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        {{- end }}
      env:
        - name: TRIVIUM_POSTGRES__DSN
          valueFrom: {secretKeyRef: {{ $.Values.postgres.dsnSecret | toJson }}}
        - name: TRIVIUM_NEO4J__URI
          value: {{ $.Values.neo4j.uri | quote }}
        {{- with $.Values.neo4j.passwordSecret }}
        - name: TRIVIUM_NEO4J__PASSWORD
          valueFrom: {secretKeyRef: {{ . | toJson }}}
        {{- end }}
        - name: TRIVIUM_AUTH__KEYS
          value: {{ $.Values.auth.keys | quote }}
        - name: TRIVIUM_AUTH__ALLOW_ANONYMOUS
          value: {{ $.Values.auth.allowAnonymous | quote }}
        {{- if not .head }}
        - {name: HF_HOME, value: /var/cache/trivium/huggingface}
        - {name: TORCHINDUCTOR_CACHE_DIR, value: /var/cache/trivium/torchinductor}
        {{- end }}
        {{- with $.Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      resources:
        {{- toYaml .group.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: temporary, mountPath: /tmp}
        {{- if not .head }}
        - {name: models, mountPath: /var/cache/trivium}
        {{- end }}
  volumes:
    # Ray's sockets, logs and spilled objects.
    - name: temporary
      emptyDir: {sizeLimit: 4Gi}
    {{- if not .head }}
    - name: models
      {{- with $.Values.models.claim }}
      persistentVolumeClaim: {claimName: {{ . }}}
      {{- else }}
      emptyDir: {sizeLimit: {{ $.Values.models.sizeLimit }}}
      {{- end }}
    {{- end }}
  {{- with .group.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .group.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .group.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
