// Package tlsfiles makes TLS settings from files with certificates and keys. It makes them anew
// when the files change, so that a certificate can be renewed without a restart.
//
// A [Source] has the newest settings. Its Run reads the files again every few seconds. A pair that
// cannot be used changes nothing: the Source keeps the settings that it has.
//
// [Users] finds the ACL user whom a client's certificate names, and the user's password. Its file
// is read again in the same way.
package tlsfiles
