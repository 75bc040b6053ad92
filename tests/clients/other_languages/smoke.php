<?php
// Orders a report by the generated client, reads it, and reads it as a newer server might write it.
[, $folder, $address, $key] = $argv;
require 'GuzzleHttp/autoload.php';
spl_autoload_register(
    fn($name) => require "$folder/lib/" . strtr(substr($name, strlen('Reports\\')), '\\', '/') . '.php'
);

$settings = (new Reports\Configuration())->setHost($address)->setAccessToken($key);
$reports = new Reports\Api\ReportsApi(null, $settings);

$created = $reports->createReports(new Reports\Model\ReportsRequest(['reports' => [
    new Reports\Model\ReportItem([
        'subject' => new Reports\Model\SubjectInput([
            'subject_type' => 'INDIVIDUAL', 'full_name' => 'Wanjiku Kamau', 'id_number' => '90000000',
        ]),
        'checks_requested' => ['IDENTITY'],
        'purpose' => 'Loan application',
        'consent' => new Reports\Model\ConsentInput([
            'mode' => 'CUSTOMER_ATTESTED', 'obtained' => true, 'obtained_at' => new DateTime('-1 day'),
            'method' => 'CUSTOMER_WEB_FORM', 'policy_version' => '1',
        ]),
    ]),
]]), 'smoke-of-php');
$report = $reports->getReport($created->getReports()[0]->getId());
echo $report->getStatus(), "\n";

$newer = json_decode(json_encode($report));
$newer->newMember = ['a' => [1]];
$newer->status = 'NEW_STATUS';
echo Reports\ObjectSerializer::deserialize($newer, Reports\Model\Report::class)->getStatus(), "\n";
