{{/* The PodDisruptionBudget and the HorizontalPodAutoscaler of one Deployment. */}}
{{- define "verification.scaling" -}}
{{- $name := printf "%s-%s" (include "verification.fullname" .root) .component }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "verification.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "verification.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
{{- with .values.autoscaling }}
{{- if .enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels: {{- include "verification.labels" $.root | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
    {{- if .metric }}
    - type: External
      external:
        metric:
          name: {{ .metric }}
          selector: {matchLabels: {{ toJson .selector }}}
        target: {type: Value, value: {{ .targetAgeSeconds | toString | quote }}}
    {{- else }}
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ .targetCPU }}}
    {{- end }}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 600}
{{- end }}
{{- end }}
{{- end -}}
