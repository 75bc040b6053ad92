import client.ApiClient;
import client.JSON;
import client.api.ReportsApi;
import client.model.CreatedReports;
import client.model.Report;
import client.model.ReportsRequest;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Orders a report by the generated client, reads it, and reads it as a newer server might write it. */
class Smoke {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0], key = arguments[1], order = arguments[2];
        ApiClient http = new ApiClient();
        http.updateBaseUri(address);
        http.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + key));
        ObjectMapper json = http.getObjectMapper();
        ReportsApi reports = new ReportsApi(http);

        CreatedReports created =
            reports.createReports(json.readValue(order, ReportsRequest.class), "smoke-of-java");
        Report report = reports.getReport(created.getReports().get(0).getId());
        System.out.println(report.getStatus());

        String newer = json.writeValueAsString(report)
            .replaceFirst("\\{", "{\"newMember\": {\"a\": [1]}, ")
            .replaceFirst("\"status\":\"[A-Z_]+\"", "\"status\":\"NEW_STATUS\"");
        System.out.println(json.readValue(newer, Report.class).getStatus());
    }
}
