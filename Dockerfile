# docker build -t leash --build-arg VERSION="$(git describe --tags --always)" .
# docker run --rm -p 6380:6380 leash --upstream redis:6379
#
# For several platforms: docker buildx build --platform linux/amd64,linux/arm64 …

# Go builds for each platform on the machine's own, without emulation.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X leash/internal/config.version=${VERSION}" -o /leash .

FROM scratch
COPY --from=build /leash /leash
# The authorities that --upstream-tls trusts without --upstream-tls-ca.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# Not root, and no user database is needed for a number.
USER 65532:65532
# A container's loopback reaches nobody. As a variable and not in CMD, so that
# `docker run leash --upstream …` keeps it; `--listen` still beats it.
ENV LEASH_LISTEN=0.0.0.0:6380
EXPOSE 6380
HEALTHCHECK --interval=10s --timeout=5s CMD ["/leash", "health"]
ENTRYPOINT ["/leash"]
