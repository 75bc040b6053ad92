"""Files of sanctions lists in their publishers' forms, about invented people."""

UN = """<?xml version="1.0" encoding="UTF-8"?>
<CONSOLIDATED_LIST dateGenerated="2026-11-20T00:00:00.000Z">
  <INDIVIDUALS>
    <INDIVIDUAL>
      <DATAID>6908555</DATAID><VERSIONNUM>1</VERSIONNUM>
      <FIRST_NAME>ABDALLA</FIRST_NAME><SECOND_NAME>TESTI</SECOND_NAME>
      <THIRD_NAME>MFANO</THIRD_NAME>
      <UN_LIST_TYPE>Al-Qaida</UN_LIST_TYPE>
      <REFERENCE_NUMBER>QDi.999</REFERENCE_NUMBER>
      <LISTED_ON>2012-12-31</LISTED_ON>
      <NATIONALITY><VALUE>Somalia</VALUE><VALUE>Nowhereland</VALUE></NATIONALITY>
      <INDIVIDUAL_ALIAS><QUALITY>Good</QUALITY>
        <ALIAS_NAME>Abu Testi; Abdullah Testy</ALIAS_NAME></INDIVIDUAL_ALIAS>
      <INDIVIDUAL_ALIAS><QUALITY>Low</QUALITY><ALIAS_NAME/></INDIVIDUAL_ALIAS>
      <INDIVIDUAL_DATE_OF_BIRTH><TYPE_OF_DATE>EXACT</TYPE_OF_DATE>
        <DATE>1971-01-02</DATE></INDIVIDUAL_DATE_OF_BIRTH>
      <INDIVIDUAL_DATE_OF_BIRTH><TYPE_OF_DATE>BETWEEN</TYPE_OF_DATE>
        <FROM_YEAR>1960</FROM_YEAR><TO_YEAR>1965</TO_YEAR></INDIVIDUAL_DATE_OF_BIRTH>
      <INDIVIDUAL_DATE_OF_BIRTH><TYPE_OF_DATE>APPROXIMATELY</TYPE_OF_DATE>
        <YEAR>1980</YEAR></INDIVIDUAL_DATE_OF_BIRTH>
    </INDIVIDUAL>
    <INDIVIDUAL><DATAID>1</DATAID></INDIVIDUAL>
  </INDIVIDUALS>
  <ENTITIES>
    <ENTITY>
      <DATAID>2</DATAID><FIRST_NAME>MFANO TRADING COMPANY</FIRST_NAME>
      <REFERENCE_NUMBER>QDe.999</REFERENCE_NUMBER>
      <ENTITY_ALIAS><QUALITY>a.k.a.</QUALITY>
        <ALIAS_NAME>Mfano General Trading</ALIAS_NAME></ENTITY_ALIAS>
      <ENTITY_ADDRESS><COUNTRY>Democratic Republic of the Congo</COUNTRY>
      </ENTITY_ADDRESS>
    </ENTITY>
  </ENTITIES>
</CONSOLIDATED_LIST>
"""
OFAC = """<?xml version="1.0" standalone="yes"?>
<sdnList xmlns="https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/XML">
  <publshInformation>
    <Publish_Date>11/20/2026</Publish_Date><Record_Count>3</Record_Count>
  </publshInformation>
  <sdnEntry>
    <uid>7800</uid><firstName>Juma</firstName><lastName>TESTWALA</lastName>
    <sdnType>Individual</sdnType>
    <programList><program>SDGT</program></programList>
    <akaList><aka><uid>1</uid><type>a.k.a.</type><category>weak</category>
      <lastName>JUMA WA MFANO</lastName></aka></akaList>
    <nationalityList><nationality><uid>2</uid><country>Kenya</country></nationality>
    </nationalityList>
    <citizenshipList><citizenship><uid>4</uid><country>Iran</country></citizenship>
    </citizenshipList>
    <dateOfBirthList>
      <dateOfBirthItem>
        <uid>3</uid><dateOfBirth>07 Dec 1960</dateOfBirth>
      </dateOfBirthItem>
      <dateOfBirthItem>
        <uid>5</uid><dateOfBirth>circa 1965</dateOfBirth>
      </dateOfBirthItem>
      <dateOfBirthItem>
        <uid>6</uid><dateOfBirth>Mar 1970</dateOfBirth>
      </dateOfBirthItem>
      <dateOfBirthItem>
        <uid>7</uid><dateOfBirth>1975 to 1978</dateOfBirth>
      </dateOfBirthItem>
      <dateOfBirthItem>
        <uid>8</uid><dateOfBirth>01 Jan 1982 to 31 Dec 1983</dateOfBirth>
      </dateOfBirthItem>
    </dateOfBirthList>
  </sdnEntry>
  <sdnEntry>
    <uid>9000</uid><lastName>MFANO SHIPPING LLC</lastName><sdnType>Entity</sdnType>
    <addressList><address><uid>9</uid><country>Russia</country></address></addressList>
  </sdnEntry>
  <sdnEntry>
    <uid>9001</uid><lastName>MFANO STAR</lastName><sdnType>Vessel</sdnType>
  </sdnEntry>
</sdnList>
"""
UK = """<?xml version="1.0" encoding="utf-8"?>
<Designations>
  <DateGenerated>20/11/2026</DateGenerated>
  <Designation>
    <LastUpdated>14/04/2026</LastUpdated><UniqueID>TST0001</UniqueID>
    <Names>
      <Name><Name1>Mwana</Name1><Name6>Mfano</Name6><NameType>Alias</NameType></Name>
      <Name><Name1>MWANAMKE</Name1><Name2>WA</Name2><Name6>TESTI</Name6>
        <NameType>Primary name</NameType></Name>
    </Names>
    <NonLatinNames><NonLatinName><NameNonLatinScript>مفانو تيستي</NameNonLatinScript>
    </NonLatinName></NonLatinNames>
    <IndividualEntityShip>Individual</IndividualEntityShip>
    <IndividualDetails><Individual>
      <DOBs><DOB>dd/mm/1945</DOB><DOB>dd/03/1958</DOB><DOB>01/03/1959</DOB></DOBs>
      <Nationalities><Nationality>Afghanistan</Nationality></Nationalities>
    </Individual></IndividualDetails>
  </Designation>
  <Designation>
    <UniqueID>TST0002</UniqueID>
    <Names>
      <Name><Name6>Mfano Bank</Name6><NameType>Primary Name</NameType></Name>
    </Names>
    <IndividualEntityShip>Entity</IndividualEntityShip>
    <Addresses><Address><AddressCountry>Syria</AddressCountry></Address></Addresses>
  </Designation>
  <Designation>
    <UniqueID>TST0003</UniqueID>
    <Names>
      <Name><Name6>MFANO SHIP</Name6><NameType>Primary Name</NameType></Name>
    </Names>
    <IndividualEntityShip>Ship</IndividualEntityShip>
  </Designation>
</Designations>
"""
EU = """<?xml version="1.0" encoding="UTF-8"?>
<export xmlns="http://eu.europa.ec/fpi/fsd/export"
    generationDate="2026-11-20T16:47:04.449+02:00" globalFileId="184961">
  <sanctionEntity euReferenceNumber="EU.27.28" logicalId="13">
    <regulation programme="TST"><publicationUrl>https://eur-lex.test</publicationUrl></regulation>
    <subjectType code="person" classificationCode="P"/>
    <nameAlias firstName="Testo" middleName="" lastName="Mfanowicz"
        wholeName="Testo Mfanowicz" strong="true" logicalId="17"/>
    <nameAlias firstName="T." lastName="Mfano" wholeName="" strong="false"/>
    <citizenship countryIso2Code="RU" countryDescription="RUSSIA"/>
    <citizenship countryIso2Code="00" countryDescription="UNKNOWN"/>
    <birthdate circa="false" birthdate="1937-04-28" year="1937"/>
    <birthdate circa="true" year="1939"/>
    <birthdate circa="false" yearRangeFrom="1940" yearRangeTo="1942"/>
  </sanctionEntity>
  <sanctionEntity euReferenceNumber="EU.1.1" logicalId="14">
    <subjectType code="enterprise" classificationCode="E"/>
    <nameAlias wholeName="Mfano JSC"/>
    <address city="Minsk" countryIso2Code="BY"/>
  </sanctionEntity>
</export>
"""
FILES = {"UN": UN, "OFAC": OFAC, "UK": UK, "EU": EU}
