{{- define "verification.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-verification" .Release.Name) (contains "verification" .Release.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels by which Services and policies choose pods: never change them. */}}
{{- define "verification.selector" -}}
app.kubernetes.io/name: verification
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "verification.labels" -}}
{{ include "verification.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "verification.database" -}}
{{ include "verification.fullname" . }}-database
{{- end -}}

{{/* Fail with all values that are missing or contradict each other, and not with the first one. */}}
{{- define "verification.require" -}}
{{- $faults := list -}}
{{- range $name, $value := dict
    "address.baseUrl: the public https address of the service" .Values.address.baseUrl
    "image.repository: where you pushed the image" .Values.image.repository
    "secrets.existingSecret: the Secret with the keys that deploy/make-secrets makes" .Values.secrets.existingSecret
    "settings.OPERATOR_CONTACT: where people ask about their data" .Values.settings.OPERATOR_CONTACT
    "trustedProxies: the networks of the ingress controller's pods" .Values.trustedProxies -}}
{{- if not $value -}}{{- $faults = append $faults $name -}}{{- end -}}
{{- end -}}
{{- if eq (empty .Values.documents.bucket) (empty .Values.documents.existingClaim) -}}
{{- $faults = append $faults "documents.bucket or documents.existingClaim: one of them keeps the documents" -}}
{{- end -}}
{{- with .Values.address -}}
{{- if and .sandboxHost (eq .sandboxHost .productionHost) -}}
{{- $faults = append $faults "address.sandboxHost and address.productionHost: the same name keeps nothing apart" -}}
{{- end -}}
{{- end -}}
{{- $keys := include "verification.keys" . | fromJson -}}
{{- if and .Values.monitoring.enabled (not (hasKey $keys "METRICS_TOKEN")) -}}
{{- $faults = append $faults "secrets.keys.METRICS_TOKEN: Prometheus reads it in that Secret" -}}
{{- end -}}
{{- if and (or .Values.cloudNativePG.enabled .Values.secrets.ownerKey) (not (hasKey $keys "DATABASE_URL")) -}}
{{- $faults = append $faults "secrets.keys.DATABASE_URL: cloudNativePG and secrets.ownerKey replace what it names" -}}
{{- end -}}
{{- $hasDirect := or .Values.settings.DATABASE_DIRECT_URL_FILE .Values.settings.DATABASE_DIRECT_URL_COMMAND -}}
{{- if and $hasDirect (or .Values.cloudNativePG.enabled .Values.secrets.ownerKey) -}}
{{- $faults = append $faults "secrets.keys.DATABASE_DIRECT_URL: the owner's address replaces what it names" -}}
{{- end -}}
{{- if and .Values.jobs.autoscaling.enabled (not .Values.monitoring.enabled) -}}
{{- $faults = append $faults "monitoring.enabled: jobs.autoscaling follows a figure of Prometheus" -}}
{{- end -}}
{{- range $name := list "web" "jobs" -}}
{{- with (get $.Values $name).autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- $faults = append $faults (printf "%s.autoscaling.minReplicas: it exceeds maxReplicas" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.backup.enabled (not .Values.backup.existingClaim) -}}
{{- $faults = append $faults "backup.existingClaim: where backups go" -}}
{{- end -}}
{{- with .Values.secrets -}}
{{- if $.Values.cloudNativePG.enabled -}}
{{- if .ownerKey -}}
{{- $faults = append $faults "cloudNativePG.roleSecret in place of secrets.ownerKey: CloudNativePG keeps the owner's address" -}}
{{- end -}}
{{- if ne (empty .serviceRole) (empty $.Values.cloudNativePG.roleSecret) -}}
{{- $faults = append $faults "secrets.serviceRole and cloudNativePG.roleSecret: both or neither" -}}
{{- end -}}
{{- else -}}
{{- if ne (empty .serviceRole) (empty .ownerKey) -}}
{{- $faults = append $faults "secrets.serviceRole and secrets.ownerKey: both or neither" -}}
{{- end -}}
{{- if $.Values.cloudNativePG.roleSecret -}}
{{- $faults = append $faults "cloudNativePG.enabled: cloudNativePG.roleSecret is for its database" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.networkPolicy -}}
{{- if .enabled -}}
{{- if not .ingressController -}}
{{- $faults = append $faults "networkPolicy.ingressController: peers that may reach the web servers" -}}
{{- end -}}
{{- if not (or .database $.Values.cloudNativePG.enabled) -}}
{{- $faults = append $faults "networkPolicy.database: peers with your PostgreSQL, or cloudNativePG.enabled" -}}
{{- end -}}
{{- if and $.Values.monitoring.enabled (not .prometheus) -}}
{{- $faults = append $faults "networkPolicy.prometheus: peers that may read /metrics" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\n\nThese values are missing or contradict each other (docs/operator/kubernetes.md):\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end -}}

{{/* The hosts that people and clients use. */}}
{{- define "verification.hosts" -}}
{{- $public := urlParse .Values.address.baseUrl -}}
{{- without (list $public.hostname .Values.address.sandboxHost .Values.address.productionHost) "" | uniq | join "," -}}
{{- end -}}

{{/* The settings that files of the Secret hold: those that come from nowhere else. */}}
{{- define "verification.keys" -}}
{{- $keys := deepCopy .Values.secrets.keys -}}
{{- range $setting, $_ := .Values.settings -}}
{{- $keys = omit $keys (regexReplaceAll "_(COMMAND|FILE)$" $setting "") -}}
{{- end -}}
{{- toJson $keys -}}
{{- end -}}

{{/* The environment. It stands in the pods, because hooks run before a ConfigMap would exist. */}}
{{- define "verification.env" -}}
- {name: HOST, value: "0.0.0.0"}
- {name: PORT, value: "8000"}
- {name: BASE_URL, value: {{ .Values.address.baseUrl | quote }}}
{{- with .Values.address.sandboxHost }}
- {name: SANDBOX_HOST, value: {{ . | quote }}}
{{- end }}
{{- with .Values.address.productionHost }}
- {name: PRODUCTION_HOST, value: {{ . | quote }}}
{{- end }}
- {name: TRUSTED_PROXIES, value: {{ join "," .Values.trustedProxies | quote }}}
{{- range $name, $key := include "verification.keys" . | fromJson }}
- {name: {{ $name }}_FILE, value: /etc/verification/secrets/{{ $key }}}
{{- end }}
{{- if .Values.monitoring.enabled }}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
# Prometheus asks each web server by its address, without TLS.
- {name: ALLOWED_HOSTS, value: "{{ include "verification.hosts" . }},localhost,127.0.0.1,$(POD_IP),[$(POD_IP)]"}
- {name: METRICS_OVER_HTTP, value: "True"}
{{- end }}
{{- with .Values.jobs }}
- {name: EXPECTED_JOB_CLUSTERS, value: {{ ternary .autoscaling.minReplicas .replicas .autoscaling.enabled | toString | quote }}}
{{- end }}
{{- if .Values.cloudNativePG.enabled }}
{{- if not (hasKey .Values.settings "EXPECTED_STANDBYS") }}
- {name: EXPECTED_STANDBYS, value: {{ sub (int .Values.cloudNativePG.instances) 1 | toString | quote }}}
{{- end }}
- {name: PGSSLMODE, value: require}
{{- end }}
{{- with .Values.documents.bucket }}
- {name: DOCUMENTS_BUCKET, value: {{ . | quote }}}
{{- end }}
{{- range $name, $value := .Values.documents.env }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end -}}

{{/* The secrets as files. `isOwner` puts the address of the tables' owner in place of the role's two. */}}
{{- define "verification.secrets" -}}
{{- $root := .root -}}
{{- $owner := and .isOwner $root.Values.secrets.ownerKey -}}
{{- $isOurs := $root.Values.cloudNativePG.enabled -}}
{{- $keys := include "verification.keys" $root | fromJson -}}
{{- $addresses := list "DATABASE_URL" "DATABASE_DIRECT_URL" -}}
{{- $ofCluster := list -}}
{{- if $isOurs -}}
{{- $ofCluster = ternary $addresses (list "DATABASE_URL") (default false .isOwner) -}}
{{- end -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ $root.Values.secrets.existingSecret }}
          items:
            {{- range $name, $key := $keys }}
            {{- if not (has $name $ofCluster) }}
            - {key: {{ and (has $name $addresses) $owner | default $key }}, path: {{ $key }}}
            {{- end }}
            {{- end }}
      {{- if $isOurs }}
      # CloudNativePG makes that of the owner.
      - secret:
          name: {{ and (not .isOwner) $root.Values.cloudNativePG.roleSecret | default (printf "%s-app" (include "verification.database" $root)) }}
          items:
            {{- range $name, $key := $keys }}
            {{- if has $name $ofCluster }}
            - {key: uri, path: {{ $key }}}
            {{- end }}
            {{- end }}
      {{- end }}
{{- end -}}

{{/*
The metadata and spec of a pod: root, component, command, isOwner; of the container: resources,
extra (ports and probes), hasBackups; of the pod: seconds.
*/}}
{{- define "verification.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "verification.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  {{- with $root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .restart }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with $root.Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .seconds }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets: {{- range . }}{{ nindent 4 (printf "- {name: %s}" .) }}{{ end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if not .restart }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "verification.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $.component }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: {{ toJson .command }}
      env:
        {{- include "verification.env" $root | nindent 8 }}
        {{- range $name, $value := .env }}
        - {name: {{ $name }}, value: {{ $value | quote }}}
        {{- end }}
      {{- with $root.Values.documents.credentialsSecret }}
      envFrom: [{secretRef: {name: {{ . }}}}]
      {{- end }}
      {{- with .extra }}
      {{- . | nindent 6 }}
      {{- end }}
      resources: {{- toYaml .resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: secrets, mountPath: /etc/verification/secrets, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        - {name: data, mountPath: /var/lib/verification}
        {{- with $root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if and .hasBackups $root.Values.backup.existingClaim }}
        - {name: backups, mountPath: /var/backups/verification}
        {{- end }}
  volumes:
    {{- include "verification.secrets" . | nindent 4 }}
    - {name: tmp, emptyDir: {sizeLimit: 512Mi}}
    {{- if $root.Values.documents.existingClaim }}
    - {name: data, persistentVolumeClaim: {claimName: {{ $root.Values.documents.existingClaim }}}}
    {{- else }}
    - {name: data, emptyDir: {sizeLimit: 64Mi}}
    {{- end }}
    {{- with $root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if and .hasBackups $root.Values.backup.existingClaim }}
    - {name: backups, persistentVolumeClaim: {claimName: {{ $root.Values.backup.existingClaim }}}}
    {{- end }}
{{- end -}}
